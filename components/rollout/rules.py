"""How a block is played: who acts, for how long, how many candidates a node, which seeds, and which one is handed on."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from components.identity import GroupKey, seed_for
from components.schema import Problem
from components.turn_order import TurnOrder, in_phases

Mode = Literal["tree", "independent", "single"]


def playing_order(mode: Mode, turn_order: TurnOrder, *, roles: tuple[str, ...]) -> TurnOrder:
    """Who acts: all, or in mode "single" the last agent alone, which then sees no proposal. Of a team that branches that is the
    last of `roles`.
    """
    if mode != "single":
        return turn_order
    return (in_phases(turn_order)[-1] if turn_order else roles)[-1:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Which episode of which problem to play. Equal problems of one step have different episode numbers."""

    problem: Problem
    episode: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Everything about play that is not the environment, the engines or the rubric.

    `purpose` keeps the seeds of unrelated play apart: ("rollout", step) or ("evaluate", suite). `temperature` 0 is greedy.
    """

    turn_order: TurnOrder
    max_turns: int
    group_size: int
    temperature: float
    seed: int
    purpose: tuple[str | int, ...]
    random_handoff_probability: float = 0.0

    def seeds(self, group: GroupKey) -> tuple[int, ...]:
        """One seed a candidate of `group`."""
        node = (*self.purpose, *group.seed_parts)
        return tuple(seed_for(self.seed, *node, candidate) for candidate in range(self.group_size))

    def choose(self, group: GroupKey, rewards: Sequence[float], *, is_last: bool) -> tuple[int, bool]:
        """The place in `rewards` of the candidate that is handed on, and whether it was drawn at random.

        `rewards` are those of the candidates that can be scored, which may be fewer than `group_size`. The best is chosen, ties
        go to the lowest index; with `random_handoff_probability` any of them, except where nobody acts after it (`is_last`):
        that action is the team's.

        **Example** rewards (.1, 1.3, 1.3) give (1, False).
        """
        assert 0 < len(rewards) <= self.group_size, f"{group}: {len(rewards)} rewards of {self.group_size} candidates"
        if len(rewards) > 1 and self.random_handoff_probability > 0 and not is_last:
            rng = random.Random(seed_for(self.seed, "handoff", *self.purpose, *group.seed_parts))
            if rng.random() < self.random_handoff_probability:
                return rng.randrange(len(rewards)), True
        return max(range(len(rewards)), key=rewards.__getitem__), False
