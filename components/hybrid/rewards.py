"""What a step earns: the growth of a potential made of records, so that nothing can be earned twice.

A record is the most of something that an episode has reached, and never falls. The reward of a step is the difference of the
potentials after and before it, so that an episode earns what it has reached and no path earns more than another with the
same records: a door that is walked through back and forth earns exactly 0. The form is that of PokemonRedExperiments (version
2), the weights are those of our study.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from math import isfinite
from typing import Self

import numpy as np

from components.errors import ConfigurationError
from components.hybrid.game_facts import Facts, Floats, Integers

STARTER_LEVEL = 5
"""Levels up to it come with the first member of the party, which has a weight of its own."""
SOFT_CAP = 22
"""A level beyond counts a quarter: endless training is not progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardWeights:
    """What one of each record is worth, and the cost of a step, which is not positive."""

    badges: float = 100.0
    party: float = 25.0
    caught: float = 20.0
    levels: float = 5.0
    events: float = 5.0
    maps: float = 2.0
    subgoals: float = 1.0
    tiles: float = 0.1
    step: float = -0.01

    def __post_init__(self) -> None:
        for name, weight in asdict(self).items():
            if not isfinite(weight) or (weight > 0 if name == "step" else weight < 0):
                raise ConfigurationError(
                    f"weight {name} {weight}: give a finite number {'up to 0' if name == 'step' else 'from 0'}"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """The most that an episode of each game has reached (N,). `tiles` and `maps` count visited ones, `subgoals` those met."""

    badges: Integers
    party: Integers
    caught: Integers
    levels: Integers
    events: Integers
    maps: Integers
    subgoals: Integers
    tiles: Integers

    @classmethod
    def none(cls, num_games: int) -> Self:
        """Records of 0, from which an episode starts before its first state is counted."""
        return cls(**{field.name: np.zeros(num_games, np.int64) for field in fields(cls)})

    def with_state(self, facts: Facts, *, tiles: Integers, maps: Integers, subgoals: Integers) -> Self:
        """The records after a state with these facts, and with so many tiles, maps and subgoals since the episode began.

        **Example** level 7 before and 6 now: 7.
        """
        now = {
            "badges": facts["johto_badges"] + facts["kanto_badges"],
            "party": facts["party_count"],
            "caught": facts["caught"],
            "levels": facts["level"],
            "events": facts["events"],
            "maps": maps,
            "subgoals": subgoals,
            "tiles": tiles,
        }
        return type(self)(**{name: np.maximum(getattr(self, name), value) for name, value in now.items()})


def reward_terms(before: Records, after: Records, weights: RewardWeights) -> dict[str, Floats]:
    """What each record, and the step itself, contributes to the reward of a step in each game (N,); their sum is the reward.

    **Example** the first badge at the sixth new tile: badges 100, tiles .1, step -.01, all others exactly 0.
    """
    values = asdict(weights)
    terms = {
        field.name: values[field.name] * (_worth(after, field.name) - _worth(before, field.name))
        for field in fields(Records)
    }
    return terms | {"step": np.full(len(after.tiles), weights.step)}


def total_reward(terms: Mapping[str, Floats]) -> Floats:
    """The reward of a step in each game (N,), from its terms. **Example** badges 100, tiles .1, step -.01: 100.09."""
    total_N: Floats = np.sum(list(terms.values()), axis=0)
    return total_N


def potential(records: Records, weights: RewardWeights) -> Floats:
    """What the records of each game are worth (N,): the rewards of an episode from `Records.none` on, without its steps.

    **Example** a party of one at level 7, 12 tiles and 2 maps: 25 + 2 * 5 + 1.2 + 4 = 40.2.
    """
    values = asdict(weights)
    worth_N: Floats = np.sum([values[field.name] * _worth(records, field.name) for field in fields(Records)], axis=0)
    return worth_N


def _worth(records: Records, name: str) -> Floats:
    count_N: Floats = getattr(records, name).astype(np.float64)
    if name == "levels":
        soft_N = np.minimum(count_N, SOFT_CAP) + np.maximum(count_N - SOFT_CAP, 0) / 4
        count_N = np.maximum(soft_N - STARTER_LEVEL, 0)
    return count_N
