"""Goals with priorities, prerequisites and conditions on the facts of a game."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.conditions import read_condition
from components.hybrid.game_facts import LARGEST
from components.suggestions import suggest

Facts = Mapping[str, int]
_NUM_BADGES = 8
_EXPERIENCED = 15


class GoalPriority(IntEnum):
    """How much a goal matters; the smallest goes first."""

    EMERGENCY = 1
    CRITICAL = 2
    HIGH = 3
    MEDIUM = 4
    LOW = 5


class GoalStatus(StrEnum):
    """Where a goal stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    ABANDONED = "abandoned"


@dataclass(slots=True, kw_only=True)
class Goal:
    """Something to reach. `is_met` reads the facts; what `keeps` is pursued again when it is no longer met."""

    name: str
    priority: GoalPriority
    is_met: Callable[[Facts], bool]
    prerequisites: tuple[str, ...] = ()
    keeps: bool = False
    status: GoalStatus = GoalStatus.PENDING


class GoalOrientedPlanner:
    """The goals of a player: health, the first monster, the badges one after another, and experience.

    **Example** in a new game `update(info["facts"])` makes "get the first monster" the `current_goal`.
    """

    def __init__(self, goals: Sequence[Goal] | None = None) -> None:
        self._goals: dict[str, Goal] = {}
        for goal in default_goals() if goals is None else goals:
            self._add(goal)

    @property
    def goals(self) -> tuple[Goal, ...]:
        """All goals, in the order in which they were added."""
        return tuple(self._goals.values())

    def add_goal(
        self,
        name: str,
        condition: str | Callable[[Facts], bool],
        *,
        priority: GoalPriority = GoalPriority.MEDIUM,
        prerequisites: Sequence[str] = (),
    ) -> Goal:
        """Pursue another goal, whose condition is a function of the facts, or a text as `party_count > 0 and level >= 10`.

        Raises ConfigurationError for a name that is taken, an unknown prerequisite, and a condition outside the language.
        """
        is_met = _read(condition) if isinstance(condition, str) else condition
        goal = Goal(name=name, priority=priority, is_met=is_met, prerequisites=tuple(prerequisites))
        self._add(goal)
        return goal

    def update(self, facts: Facts) -> Goal | None:
        """Look at a state, and return the goal to pursue now: the first of the highest priority whose prerequisites are met."""
        game = {name: int(facts.get(name, 0)) for name in LARGEST}
        for goal in self._goals.values():
            if goal.status in (GoalStatus.FAILED, GoalStatus.ABANDONED):
                continue
            if goal.is_met(game):
                goal.status = GoalStatus.COMPLETED
            elif goal.status is not GoalStatus.COMPLETED or goal.keeps:
                goal.status = GoalStatus.PENDING
        ready = [goal for goal in self._goals.values() if goal.status is GoalStatus.PENDING and self._is_ready(goal)]
        chosen = min(ready, key=lambda goal: goal.priority, default=None)
        if chosen is not None:
            chosen.status = GoalStatus.IN_PROGRESS
        return chosen

    @property
    def current_goal(self) -> Goal | None:
        """The goal that `update` has chosen last."""
        return next((goal for goal in self._goals.values() if goal.status is GoalStatus.IN_PROGRESS), None)

    @property
    def is_emergency(self) -> bool:
        """Whether the goal to pursue now is one of survival."""
        return self.current_goal is not None and self.current_goal.priority is GoalPriority.EMERGENCY

    def end_goal(self, name: str, status: GoalStatus) -> None:
        """Pursue a goal no more: it has FAILED or is ABANDONED."""
        if status not in (GoalStatus.FAILED, GoalStatus.ABANDONED):
            raise ConfigurationError(f"status {status}: a goal ends as failed or abandoned; what is completed is seen")
        self._named(name).status = status

    def statuses(self) -> dict[str, str]:
        """The status of each goal by name."""
        return {name: goal.status.value for name, goal in self._goals.items()}

    def restore(self, statuses: Mapping[str, Any]) -> None:
        """Go on from what `statuses` of a planner with these goals returned."""
        for name, status in statuses.items():
            self._named(name).status = GoalStatus(status)

    def reset(self) -> None:
        """A new episode: all goals are pending again, but for those that were ended."""
        for goal in self._goals.values():
            if goal.status in (GoalStatus.COMPLETED, GoalStatus.IN_PROGRESS):
                goal.status = GoalStatus.PENDING

    def _add(self, goal: Goal) -> None:
        if goal.name in self._goals:
            raise ConfigurationError(f"goal {goal.name!r} is there already: choose another name")
        for name in goal.prerequisites:
            self._named(name)
        self._goals[goal.name] = goal

    def _named(self, name: str) -> Goal:
        if name not in self._goals:
            raise ConfigurationError(f"goal {name!r}: there is none of this name; {suggest(name, self._goals)}")
        return self._goals[name]

    def _is_ready(self, goal: Goal) -> bool:
        return all(self._goals[name].status is GoalStatus.COMPLETED for name in goal.prerequisites)


def default_goals() -> list[Goal]:
    """Health above a quarter, the first monster, the eight badges in order, and level 15."""
    first = "get the first monster"
    goals = [
        Goal(name="stay healthy", priority=GoalPriority.EMERGENCY, is_met=_is_healthy, keeps=True),
        Goal(name=first, priority=GoalPriority.CRITICAL, is_met=_read("party_count > 0")),
    ]
    before = first
    for number in range(1, _NUM_BADGES + 1):
        badge = Goal(
            name=f"win badge {number}",
            priority=GoalPriority.HIGH,
            is_met=_read(f"johto_badges >= {number}"),
            prerequisites=(before,),
        )
        goals.append(badge)
        before = badge.name
    level = _read(f"level >= {_EXPERIENCED}")
    goals.append(
        Goal(name=f"reach level {_EXPERIENCED}", priority=GoalPriority.MEDIUM, is_met=level, prerequisites=(first,))
    )
    return goals


def _is_healthy(facts: Facts) -> bool:
    return not facts["party_count"] or 4 * facts["hp"] > facts["max_hp"]


def _read(text: str) -> Callable[[Facts], bool]:
    condition = read_condition(text, LARGEST)

    def is_met(facts: Facts) -> bool:
        game: Any = facts  # numbers, where a condition usually reads arrays
        return bool(condition.holds(game))

    return is_met
