"""Episodes that begin where play has been, so that what is far gets practice: ever fewer, as the whole way is learned.

Play itself finds the positions: each time that a game enters a *section* (its party, badges and map) the position is kept,
the last few of each section. Where an episode begins at one, a section that was entered n times has the weight 1 / sqrt(n), so
that rare ones are practised more (Ecoffet et al., "First return, then explore", Nature 590, 2021, with kept states).
The share of such episodes is the help of `curriculum.py`: it decays with each episode from the true start, and rises when these
stall.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from components.config.hybrid import CurriculumConfig, StageConfig, StartsConfig
from components.hybrid.curriculum import CurriculumState, first_state, next_state
from components.hybrid.game_facts import Booleans, Facts, GamesStep, Integers
from components.hybrid.recording_games import SnapshotGames
from components.identity import seed_for

Position = Mapping[str, NDArray[Any]]


class PositionedGames(SnapshotGames, Protocol):
    """N games that can begin at a position: see `Twin`."""

    def position(self, game: int) -> dict[str, NDArray[Any]]: ...
    def begin_at(self, game: int, position: dict[str, NDArray[Any]]) -> None: ...


def make_helped_starts(rule: StartsConfig) -> CurriculumConfig:
    """A curriculum whose help is the share of episodes that begin at a position: `share` at first, `last_share` at last.

    An episode from the true start has the reward 1 where it reached the goal, else 0; the second stage comes when `goal_rate`
    of the last 100 did.
    """
    stages = (
        StageConfig(name="the way", reward_threshold=rule.goal_rate, llm_confidence=rule.share),
        StageConfig(name="alone", reward_threshold=1.0, llm_confidence=rule.last_share),
    )
    return CurriculumConfig(stages=stages, window=100, largest_deviation=0.5, patience=400, decay=rule.decay)


class GamesFromPositions:
    """N games, of which some episodes begin at positions that play has found. Equal seeds and equal play give equal starts."""

    def __init__(self, games: PositionedGames, rule: StartsConfig, *, seed: int) -> None:
        self._games, self._rule, self._seed = games, rule, seed
        self._help = make_helped_starts(rule)
        self.curriculum: CurriculumState = first_state(self._help)
        self._kept: dict[str, list[dict[str, NDArray[Any]]]] = {}
        self._num_found: dict[str, int] = {}
        self._num_episodes = 0
        self._sections = section_names(games.facts)
        self.from_start_N = np.ones(len(self._sections), np.bool_)

    @property
    def facts(self) -> Facts:
        """The facts of each game now (N,)."""
        return self._games.facts

    @property
    def sections(self) -> tuple[str, ...]:
        """The sections that play has reached, in the order in which it did."""
        return tuple(self._kept)

    def states(self) -> NDArray[Any]:
        """The state variables of each game now (N, S)."""
        return self._games.states()

    def masks(self) -> Booleans:
        """The actions that are allowed in each game now (N, A)."""
        return self._games.masks()

    def step(self, actions_N: Integers) -> GamesStep:
        """What these buttons bring; of the games that end, some begin anew at a position."""
        step = self._games.step(actions_N)
        over_N = step.ended_N | step.cut_N
        for game, section in enumerate(section_names(self._games.facts)):
            if over_N[game]:
                self._begin(game, reached_goal=bool(step.ended_N[game]))
            elif section != self._sections[game]:
                self._keep(section, game)
                self._sections[game] = section
        if over_N.any():
            now = section_names(self._games.facts)
            for game in np.flatnonzero(over_N).tolist():
                self._sections[game] = now[game]
            step = replace(step, states_N_S=self._games.states())
        return step

    def snapshot(self) -> dict[str, NDArray[Any]]:
        """All that decides how the games go on, as arrays by name, for `restore`."""
        own = {
            "curriculum": self.curriculum.to_json(),
            "sections": self._sections,
            "kept": {section: len(kept) for section, kept in self._kept.items()},
            "num_found": self._num_found,
            "num_episodes": self._num_episodes,
        }
        positions = {
            f"position.{number}.{place}.{name}": values
            for number, kept in enumerate(self._kept.values())
            for place, position in enumerate(kept)
            for name, values in position.items()
        }
        text = np.frombuffer(json.dumps(own).encode(), np.uint8)
        games = {f"games.{name}": values for name, values in self._games.snapshot().items()}
        return {"starts": text, "from_start_N": self.from_start_N.copy(), **positions, **games}

    def restore(self, snapshot: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `snapshot` of as many games returned. Raises ValueError for any other."""
        self._games.restore(_below(snapshot, "games."))
        own = json.loads(snapshot["starts"].tobytes())
        self.curriculum = CurriculumState.from_json(own["curriculum"])
        self._sections, self._num_found, self._num_episodes = own["sections"], own["num_found"], own["num_episodes"]
        self.from_start_N = snapshot["from_start_N"].copy()
        self._kept = {
            section: [_below(snapshot, f"position.{number}.{place}.") for place in range(count)]
            for number, (section, count) in enumerate(own["kept"].items())
        }

    def _begin(self, game: int, *, reached_goal: bool) -> None:
        if self.from_start_N[game]:
            self.curriculum, _ = next_state(self.curriculum, self._help, float(reached_goal))
        chance = Random(seed_for(self._seed, "start", self._num_episodes))
        self._num_episodes += 1
        self.from_start_N[game] = not self._kept or chance.random() >= self.curriculum.llm_confidence
        if not self.from_start_N[game]:
            weights = [found**-0.5 for found in self._num_found.values()]
            (section,) = chance.choices(list(self._num_found), weights)
            self._games.begin_at(game, chance.choice(self._kept[section]))

    def _keep(self, section: str, game: int) -> None:
        kept, found = self._kept.setdefault(section, []), self._num_found.get(section, 0)
        self._num_found[section] = found + 1
        position = self._games.position(game)
        if len(kept) < self._rule.kept:
            kept.append(position)
        else:
            kept[found % self._rule.kept] = position


def _below(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(prefix): values.copy() for name, values in arrays.items() if name.startswith(prefix)}


def section_names(facts: Facts) -> list[str]:
    """The section that each game is in; battles belong to that of the map they are fought on.

    **Example** "party 1, badges 1, map 24.3".
    """
    columns = (facts[name].tolist() for name in ("party_count", "johto_badges", "map_group", "map_number"))
    return [
        f"party {party}, badges {badges}, map {group}.{number}"
        for party, badges, group, number in zip(*columns, strict=True)
    ]
