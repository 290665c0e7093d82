"""What a teacher asks for on the way: subgoals with conditions, whose pay is too small to be a goal of its own.

A language model writes them, an RL policy plays alone. Where the game's own reward is sparse they decide whether it is ever
found; where they are wrong they must not stop learning. On the twin after 65,536 steps, two seeds, the share of episodes with
the badge: paid by the badge alone 0 and 0, with twelve good subgoals .93 and .91; paid by all records .68 and .80, with six
wrong subgoals under the cap .82 and .82, with the same six at 10 each 0 and 0.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from components.errors import ConfigurationError
from components.hybrid.conditions import Condition, read_condition
from components.hybrid.errors import ConditionRefused
from components.hybrid.game_facts import Booleans, Facts
from components.hybrid.rewards import RewardWeights

MOST_SUBGOALS = 12

MOST_SUBGOALS = 12
LARGEST_SHARE = 0.25
"""The most that all subgoals of an episode pay together, as a share of the smallest true goal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subgoal:
    """A name for people, and the condition under which it is met. It pays once an episode."""

    name: str
    condition: Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """The subgoals of a teacher's text, and why other lines of it were refused."""

    subgoals: tuple[Subgoal, ...] = ()
    refusals: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """One `name: condition` a line, from which an equal lesson is read."""
        return "\n".join(f"{each.name}: {each.condition.text}" for each in self.subgoals)


def read_lesson(text: str, names: Collection[str]) -> Lesson:
    """The lesson of a text with one `name: condition` a line; empty lines are skipped.

    Refused are lines without a colon, conditions outside the language, repeated names, and what exceeds `MOST_SUBGOALS`. A
    refusal says the line and the remedy, so that it can be shown to the teacher.

    **Example** `starter: party_count > 0` and `win: fight()` give one subgoal and one refusal.
    """
    subgoals: dict[str, Subgoal] = {}
    refusals = []
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, condition = (part.strip() for part in line.partition(":"))
        if not line.strip():
            continue
        try:
            if not (name and colon):
                raise ConditionRefused("write `name: condition`")
            if name in subgoals:
                raise ConditionRefused(f"{name!r} is there already: choose another name")
            if len(subgoals) == MOST_SUBGOALS:
                raise ConditionRefused(f"there are {MOST_SUBGOALS} subgoals already: leave out others")
            subgoals[name] = Subgoal(name=name, condition=read_condition(condition, names))
        except ConditionRefused as error:
            refusals.append(f"line {number}: {error}")
    return Lesson(subgoals=tuple(subgoals.values()), refusals=tuple(refusals))


def subgoals_met(subgoals: Sequence[Subgoal], facts: Facts, met_N_G: Booleans) -> Booleans:
    """Which subgoals the episodes have met up to now (N, G): those of before, and those whose condition holds.

    **Example** `x >= 8` was met at x 9: it is still met at x 3.
    """
    holding = [subgoal.condition.holds(facts) for subgoal in subgoals]
    return met_N_G | np.stack(holding, axis=-1) if holding else met_N_G


def cap_pay(num_subgoals: int, *, wanted: float, smallest_goal: float) -> float:
    """The pay of one subgoal, in units of reward: `wanted`, or less where all together would pay more than the cap.

    The cap is `LARGEST_SHARE` of the smallest true goal. So an episode that reaches a goal earns more than any that meets
    subgoals alone, however wrong they are. Raises ConfigurationError for a pay or a goal that is not positive.

    **Example** 12 subgoals beside a starter of 25: wanted 10 gives 25 * .25 / 12 = .52; 3 subgoals, wanted 1: 1.
    """
    if wanted <= 0 or smallest_goal <= 0:
        raise ConfigurationError(f"pay {wanted} beside a goal of {smallest_goal}: give positive numbers")
    return min(wanted, LARGEST_SHARE * smallest_goal / max(1, num_subgoals))


def weights_with_lesson(weights: RewardWeights, lesson: Lesson, *, wanted: float = 10.0) -> RewardWeights:
    """The weights with a pay of all subgoals that cannot outweigh the smallest true goal: the party, or else the badge.

    **Example** 12 subgoals beside a party of 25: 25 * .25 / 12 = .52 each; where only a badge of 100 pays: 2.08 each.
    """
    smallest = min(weight for weight in (weights.party, weights.badges) if weight > 0)
    return replace(weights, subgoals=cap_pay(len(lesson.subgoals), wanted=wanted, smallest_goal=smallest))
