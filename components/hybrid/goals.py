"""The goals of a player, with priorities and prerequisites, by the facts of a game."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from components.errors import ConfigurationError
from components.hybrid.game_facts import LARGEST
from components.text.suggestions import suggest

Facts = Mapping[str, int]


class GoalPriority(IntEnum):
    """How much a goal matters; the smallest goes first."""

    EMERGENCY = 1
    CRITICAL = 2
    HIGH = 3
    MEDIUM = 4
    LOW = 5


@dataclass(frozen=True, slots=True)
class Goal:
    """Something to reach, which is pursued until `is_met` of the facts, once the goal `after` has been met."""

    name: str
    priority: GoalPriority
    is_met: Callable[[Facts], bool]
    after: str | None = None


def _badge(number: int) -> Goal:
    before = f"win badge {number - 1}" if number > 1 else "get the first monster"
    return Goal(f"win badge {number}", GoalPriority.HIGH, lambda facts: facts["johto_badges"] >= number, before)


GOALS = (
    Goal("stay healthy", GoalPriority.EMERGENCY, lambda it: not it["party_count"] or 4 * it["hp"] > it["max_hp"]),
    Goal("get the first monster", GoalPriority.CRITICAL, lambda it: it["party_count"] > 0),
    *map(_badge, range(1, 9)),
    Goal("reach level 15", GoalPriority.MEDIUM, lambda it: it["level"] >= 15, "get the first monster"),
)
"""Health above a quarter, the first monster, the badges one after another, and level 15."""


class GoalOrientedPlanner:
    """Chooses among goals: `GOALS`, or others.

    **Example** in a new game `update(info["facts"])` makes "get the first monster" the `current_goal`.
    """

    def __init__(self, goals: Sequence[Goal] = GOALS) -> None:
        """Raises ConfigurationError for a name that is there twice, and a goal after an unknown one."""
        self.goals = {goal.name: goal for goal in goals}
        self._met: set[str] = set()
        self.current_goal: Goal | None = None
        """The goal that `update` has chosen last."""
        if len(self.goals) < len(goals):
            raise ConfigurationError("goals: two have one name; choose another")
        for goal in goals:
            if goal.after is not None and goal.after not in self.goals:
                raise ConfigurationError(f"goal {goal.after!r}: there is none; {suggest(goal.after, self.goals)}")

    def update(self, facts: Facts) -> Goal | None:
        """The goal to pursue in this state: the first of the highest priority that is not met, and may be pursued.

        What was met once stays met until `reset`, but for the goals of survival.
        """
        game = {name: int(facts.get(name, 0)) for name in LARGEST}
        met = self._met | {name for name, goal in self.goals.items() if goal.is_met(game)}
        self._met = {name for name in met if self.goals[name].priority is not GoalPriority.EMERGENCY}
        ready = [
            goal for goal in self.goals.values() if goal.name not in met and (goal.after is None or goal.after in met)
        ]
        self.current_goal = min(ready, key=lambda goal: goal.priority, default=None)
        return self.current_goal

    def reset(self) -> None:
        """A new episode: no goal has been met."""
        self._met, self.current_goal = set(), None

    @property
    def is_emergency(self) -> bool:
        """Whether the goal to pursue now is one of survival."""
        return self.current_goal is not None and self.current_goal.priority is GoalPriority.EMERGENCY
