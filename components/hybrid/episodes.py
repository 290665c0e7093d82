"""What the twin and the emulated games share: the rule of an episode, records that pay as they grow, and two kinds of starts.

Which starts training plays and which are kept for evaluations is decided by seeds of two kinds, of which none is of both.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.hybrid.game_facts import NUM_ACTIONS, Booleans, Facts, GamesStep, Integers, action_masks
from components.hybrid.rewards import Records, RewardWeights, reward_terms, total_reward
from components.hybrid.subgoals import Subgoal, subgoals_met
from components.identity import seed_for

Snapshot = dict[str, NDArray[Any]]
_ONE_IN = 5
"""Of this many starts one is held out. All numbers of starts are multiples of it, so that it is kept by `seed % num_starts`."""
NUM_STARTS = {"homebrew": 65_535, "crystal": 60}
"""The starts of a cartridge that differ: states of our own one's generator of chance, and idle frames before Crystal."""


def is_held_out_seed(seed: int) -> bool:
    """Whether the start of a seed is one that no training plays."""
    return seed % _ONE_IN == 0


def start_seed(seed: int, *parts: str | int, is_held_out: bool) -> int:
    """A seed for these parts, as that of `seed_for`, of the kind that is asked for.

    **Example** of the 65,535 starts of our cartridge 13,107 are held out, of the 60 of Crystal 12.
    """
    drawn = seed_for(seed, *parts)
    while is_held_out_seed(drawn) != is_held_out:
        drawn = seed_for(drawn, "another start")
    return drawn


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRule:
    """What an episode is: it ends with `goal_badges` badges, is cut after `max_steps`, and earns by `weights`, of which a
    subgoal pays that of subgoals.

    `is_held_out`: it has a start that no training plays.
    """

    max_steps: int = 300
    goal_badges: int = 1
    weights: RewardWeights = field(default_factory=RewardWeights)
    subgoals: tuple[Subgoal, ...] = ()
    is_held_out: bool = False


class RecordedGames(ABC):
    """N games whose episodes have records. A subclass presses the buttons, sees the state, and begins games anew."""

    def __init__(self, num_games: int, *, seed: int, rule: EpisodeRule | None) -> None:
        self.num_games, self._seed, self._rule = num_games, seed, rule or EpisodeRule()
        self._facts: dict[str, Integers] = {}
        self._records = Records.none(num_games)
        self._met_N_G = np.zeros((num_games, len(self._rule.subgoals)), np.bool_)
        self._steps_N = np.zeros(num_games, np.int64)
        self._episodes_N = np.zeros(num_games, np.int64)

    @property
    def facts(self) -> Facts:
        """The facts of each game now (N,); not to be changed."""
        return self._facts

    @property
    def records(self) -> Records:
        """What the episode of each game has reached (N,)."""
        return self._records

    @abstractmethod
    def states(self) -> NDArray[np.float32] | NDArray[np.uint8]:
        """What a policy sees of each game now, (N, S) or (N, 72, 80); not to be changed."""

    @abstractmethod
    def begin(self, games_N: Booleans) -> None:
        """Start new episodes in these games."""

    @abstractmethod
    def _press(self, actions_N: Integers) -> None:
        """Press a button in each game."""

    @abstractmethod
    def _visit(self) -> tuple[Integers, Integers]:
        """Read the facts of all games; the tiles and the maps that the episode of each has visited (N,)."""

    def masks(self) -> Booleans:
        """The actions that are allowed in each game now (N, A)."""
        return action_masks(self._facts)

    def play(self, actions_N: Integers) -> GamesStep:
        """What these buttons bring; games that end stay as they are until `begin`.

        Raises ValueError unless there is one action for each game.
        """
        actions_N = np.asarray(actions_N)
        if actions_N.shape != (self.num_games,) or not np.isin(actions_N, np.arange(NUM_ACTIONS)).all():
            raise ValueError(
                f"actions {actions_N}: give one of 0 to {NUM_ACTIONS - 1} for each of {self.num_games} games"
            )
        self._press(actions_N)
        before = self._records
        self._steps_N = self._steps_N + 1
        self._count()
        terms = reward_terms(before, self._records, self._rule.weights)
        ended_N = self._facts["johto_badges"] + self._facts["kanto_badges"] >= self._rule.goal_badges
        states_N_S = self.states()
        return GamesStep(
            states_N_S=states_N_S,
            final_states_N_S=states_N_S,
            final_facts=self._facts,
            rewards_N=total_reward(terms),
            terms=terms,
            ended_N=ended_N,
            cut_N=~ended_N & (self._steps_N >= self._rule.max_steps),
            starter_N=self._facts["party_count"] > 0,
            lengths_N=self._steps_N,
        )

    def step(self, actions_N: Integers) -> GamesStep:
        """What these buttons bring; games that end begin anew. Raises ValueError unless there is one action for each game.

        **Example** DOWN from (4, 5) in a new game: (4, 6), a new tile: .1, less .01 for the step.
        """
        played = self.play(actions_N)
        over_N = played.ended_N | played.cut_N
        if not over_N.any():
            return played
        self.begin(over_N)
        return replace(played, states_N_S=self.states())

    def _begin_records(self, games_N: Booleans) -> None:
        """Count anew in these games, which stand at their starts."""
        none, names = Records.none(self.num_games), Records.__slots__
        kept = {name: np.where(games_N, getattr(none, name), getattr(self._records, name)) for name in names}
        self._records = Records(**kept)
        self._met_N_G[games_N] = False
        self._steps_N = np.where(games_N, 0, self._steps_N)
        self._count()

    def _restore_records(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        self._records = Records(**{name: snapshot[f"records.{name}"].copy() for name in Records.__slots__})

    def _count(self) -> None:
        """Take the state of each game into its records."""
        tiles_N, maps_N = self._visit()
        self._met_N_G = subgoals_met(self._rule.subgoals, self._facts, self._met_N_G)
        met_N = self._met_N_G.sum(axis=1)
        self._records = self._records.with_state(self._facts, tiles=tiles_N, maps=maps_N, subgoals=met_N)
