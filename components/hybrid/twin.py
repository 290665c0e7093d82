"""The homebrew cartridge as an environment: N games at once, each with a seed of its own, exact snapshots, no emulator.

A game depends on its seed and its buttons alone, never on its neighbours: chance is a counter for each game, mixed by
SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from components.hybrid.action_masks import action_masks
from components.hybrid.cartridge_rules import FIRST_MAP, HEIGHT, NUM_MAPS, WIDTH, first_facts, play_button
from components.hybrid.game_facts import NUM_ACTIONS, Booleans, Facts, GamesStep, Integers, state_variables
from components.hybrid.rewards import Records, RewardWeights, reward_terms, total_reward
from components.hybrid.start_seeds import start_seed
from components.hybrid.subgoals import Subgoal, subgoals_met

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
Snapshot = dict[str, NDArray[Any]]


class Twin:
    """That many games, with a seed, a limit of steps an episode, the badges that end one, and subgoals.

    A subgoal pays `weights.subgoals`. `is_held_out`: the starts are those that no training plays.
    """

    def __init__(
        self,
        num_games: int,
        *,
        seed: int,
        max_steps: int = 300,
        goal_badges: int = 1,
        weights: RewardWeights | None = None,
        subgoals: Sequence[Subgoal] = (),
        is_held_out: bool = False,
    ) -> None:
        if min(num_games, max_steps, goal_badges) < 1:
            raise ConfigurationError(
                f"num_games {num_games}, max_steps {max_steps}, goal_badges {goal_badges}: give at least 1"
            )
        self._weights, self._subgoals, self._max_steps = weights or RewardWeights(), tuple(subgoals), max_steps
        self._seed, self._num_games, self._goal_badges, self._is_held_out = seed, num_games, goal_badges, is_held_out
        self._facts = first_facts(num_games)
        self._records = Records.none(num_games)
        self._tiles_N_M_Y_X = np.zeros((num_games, NUM_MAPS, HEIGHT, WIDTH), np.bool_)
        self._met_N_G = np.zeros((num_games, len(self._subgoals)), np.bool_)
        self._steps_N = np.zeros(num_games, np.int64)
        self._episodes_N = np.zeros(num_games, np.int64)
        self._chance_N = np.zeros(num_games, np.uint64)
        self._begin(np.ones(num_games, np.bool_))

    @property
    def facts(self) -> Facts:
        """The facts of each game now (N,); not to be changed."""
        return self._facts

    @property
    def records(self) -> Records:
        """What the episode of each game has reached (N,)."""
        return self._records

    def states(self) -> NDArray[np.float32]:
        """The 25 state variables of each game now (N, S)."""
        return state_variables(self._facts)

    def masks(self) -> Booleans:
        """The actions that are allowed in each game now (N, A)."""
        return action_masks(self._facts)

    def step(self, actions_N: Integers) -> GamesStep:
        """What these buttons bring. Raises ValueError unless there is one action for each game.

        **Example** DOWN from (4, 5) in a new game: (4, 6), a new tile: .1, less .01 for the step.
        """
        actions_N = np.asarray(actions_N)
        if actions_N.shape != (self._num_games,) or not np.isin(actions_N, np.arange(NUM_ACTIONS)).all():
            raise ValueError(
                f"actions {actions_N}: give one of 0 to {NUM_ACTIONS - 1} for each of {self._num_games} games"
            )
        before = self._records
        self._facts = play_button(self._facts, actions_N, self._draws())
        self._steps_N = self._steps_N + 1
        self._count()
        terms = reward_terms(before, self._records, self._weights)
        ended_N = self._facts["johto_badges"] >= self._goal_badges
        cut_N = ~ended_N & (self._steps_N >= self._max_steps)
        final_states_N_S, final_facts, lengths_N = self.states(), self._facts, self._steps_N
        if (ended_N | cut_N).any():
            self._begin(ended_N | cut_N)
        return GamesStep(
            states_N_S=self.states(),
            final_states_N_S=final_states_N_S,
            final_facts=final_facts,
            rewards_N=total_reward(terms),
            terms=terms,
            ended_N=ended_N,
            cut_N=cut_N,
            starter_N=final_facts["party_count"] > 0,
            lengths_N=lengths_N,
        )

    def snapshot(self) -> Snapshot:
        """All that decides how the games go on, as arrays by name, for `restore`: about 500 bytes a game."""
        return {name: values.copy() for name, values in self._arrays()}

    def restore(self, snapshot: Snapshot) -> None:
        """Go on from a snapshot of as many games with as many subgoals. Raises ValueError for any other."""
        here = {name: values.shape for name, values in self._arrays()}
        there = {name: values.shape for name, values in snapshot.items()}
        if here != there:
            wrong = sorted(name for name in here.keys() | there.keys() if here.get(name) != there.get(name))
            raise ValueError(f"a snapshot of another twin: {', '.join(wrong)} differ; make one with the same arguments")
        for name in _OWN:
            setattr(self, name, snapshot[name].copy())
        self._records = Records(**{name: snapshot[f"records.{name}"].copy() for name in Records.__slots__})
        self._facts = {name: snapshot[f"facts.{name}"].copy() for name in self._facts}

    def position(self, game: int) -> Snapshot:
        """Where a game is and what its episode has reached, for `begin_at`: its facts, records, tiles and subgoals."""
        return {name: values[game : game + 1].copy() for name, values in self._arrays() if name not in _NOT_OF_POSITION}

    def begin_at(self, game: int, position: Snapshot) -> None:
        """Start an episode of a game at a position of another one, before its first step: the clock and chance are its own.

        What the position has reached is not paid again.

        **Example** from a position behind the first badge the badge earns nothing, and all `max_steps` are left for the second.
        """
        assert self._steps_N[game] == 0, f"game {game} has played {self._steps_N[game]} steps"
        own = dict(self._arrays())
        changed = {name: own[name].copy() for name in position}
        for name, values in position.items():
            changed[name][game] = values[0]
        self.restore(own | changed)

    def _arrays(self) -> Iterator[tuple[str, NDArray[Any]]]:
        for name in _OWN:
            yield name, getattr(self, name)
        for name in Records.__slots__:
            yield f"records.{name}", getattr(self._records, name)
        for name, values in self._facts.items():
            yield f"facts.{name}", values

    def _begin(self, games_N: Booleans) -> None:
        """Start new episodes in these games, each with chance of its own number."""
        start = first_facts(self._num_games)
        self._facts = {name: np.where(games_N, start[name], self._facts[name]) for name in start}
        none = Records.none(self._num_games)
        names = Records.__slots__
        kept = {name: np.where(games_N, getattr(none, name), getattr(self._records, name)) for name in names}
        self._records = Records(**kept)
        self._tiles_N_M_Y_X[games_N], self._met_N_G[games_N] = False, False
        self._steps_N = np.where(games_N, 0, self._steps_N)
        for game in np.flatnonzero(games_N):
            number, episode = int(game), int(self._episodes_N[game])
            self._chance_N[game] = start_seed(self._seed, "twin", number, episode, is_held_out=self._is_held_out)
            self._episodes_N[game] += 1
        self._count()

    def _count(self) -> None:
        """Take the state of each game into its records."""
        facts = self._facts
        games_N = np.arange(self._num_games)
        self._tiles_N_M_Y_X[games_N, facts["map_number"] - FIRST_MAP, facts["y"], facts["x"]] = True
        self._met_N_G = subgoals_met(self._subgoals, facts, self._met_N_G)
        self._records = self._records.with_state(
            facts,
            tiles=self._tiles_N_M_Y_X.sum(axis=(1, 2, 3)),
            maps=self._tiles_N_M_Y_X.any(axis=(2, 3)).sum(axis=1),
            subgoals=self._met_N_G.sum(axis=1),
        )

    def _draws(self) -> Integers:
        """Two draws from 0 to 255 for each game (2, N)."""
        self._chance_N = self._chance_N + _GOLDEN
        mixed_N = self._chance_N
        mixed_N = (mixed_N ^ (mixed_N >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed_N = (mixed_N ^ (mixed_N >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed_N = mixed_N ^ (mixed_N >> np.uint64(31))
        return np.stack([mixed_N >> np.uint64(8) & np.uint64(255), mixed_N & np.uint64(255)]).astype(np.int64)


_NOT_OF_POSITION = ("_steps_N", "_episodes_N", "_chance_N")
_OWN = ("_tiles_N_M_Y_X", "_met_N_G", *_NOT_OF_POSITION)
