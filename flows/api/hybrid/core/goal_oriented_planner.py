"""Goals with priorities, prerequisites and conditions on the facts of a game."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.conditions import read_condition
from components.hybrid.game_facts import LARGEST
from components.suggestions import suggest

Facts = Mapping[str, int]
_FIRST, _NUM_BADGES, _EXPERIENCED = "get the first monster", 8, 15


class GoalPriority(IntEnum):
    """How much a goal matters; the smallest goes first."""

    EMERGENCY = 1
    CRITICAL = 2
    HIGH = 3
    MEDIUM = 4
    LOW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something to reach; it is pursued where `is_met` is false of the facts and its prerequisites have been met."""

    name: str
    priority: GoalPriority
    is_met: Callable[[Facts], bool]
    prerequisites: tuple[str, ...] = ()


class GoalOrientedPlanner:
    """The goals of a player: health, the first monster, the badges one after another, and experience.

    **Example** in a new game `update(info["facts"])` makes "get the first monster" the `current_goal`.
    """

    def __init__(self, goals: Sequence[Goal] | None = None) -> None:
        self.goals: dict[str, Goal] = {}
        self.has_own_goals = goals is not None
        self.current_goal: Goal | None = None
        """The goal that `update` has chosen last."""
        self._met: set[str] = set()
        for goal in default_goals() if goals is None else goals:
            self._add(goal)

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
        self.has_own_goals = True
        return goal

    def update(self, facts: Facts) -> Goal | None:
        """The goal to pursue in this state: the first of the highest priority that is not met, and whose prerequisites are.

        What was met once stays met until `reset`, but for the goals of survival.
        """
        game = {name: int(facts.get(name, 0)) for name in LARGEST}
        met = {name for name, goal in self.goals.items() if goal.is_met(game)}
        self._met |= {name for name in met if self.goals[name].priority is not GoalPriority.EMERGENCY}
        met |= self._met
        ready = [goal for name, goal in self.goals.items() if name not in met and met >= set(goal.prerequisites)]
        self.current_goal = min(ready, key=lambda goal: goal.priority, default=None)
        return self.current_goal

    def reset(self) -> None:
        """A new episode: no goal has been met."""
        self._met, self.current_goal = set(), None

    @property
    def is_emergency(self) -> bool:
        """Whether the goal to pursue now is one of survival."""
        return self.current_goal is not None and self.current_goal.priority is GoalPriority.EMERGENCY

    def _add(self, goal: Goal) -> None:
        if goal.name in self.goals:
            raise ConfigurationError(f"goal {goal.name!r} is there already: choose another name")
        for name in goal.prerequisites:
            if name not in self.goals:
                raise ConfigurationError(f"goal {name!r}: there is none of this name; {suggest(name, self.goals)}")
        self.goals[goal.name] = goal


def default_goals() -> list[Goal]:
    """Health above a quarter, the first monster, the eight badges in order, and level 15."""
    names = [_FIRST, *(f"win badge {number}" for number in range(1, _NUM_BADGES + 1))]
    badges = [
        Goal(
            name=names[number],
            priority=GoalPriority.HIGH,
            is_met=_read(f"johto_badges >= {number}"),
            prerequisites=(names[number - 1],),
        )
        for number in range(1, _NUM_BADGES + 1)
    ]
    return [
        Goal(name="stay healthy", priority=GoalPriority.EMERGENCY, is_met=_is_healthy),
        Goal(name=_FIRST, priority=GoalPriority.CRITICAL, is_met=_read("party_count > 0")),
        *badges,
        Goal(
            name=f"reach level {_EXPERIENCED}",
            priority=GoalPriority.MEDIUM,
            is_met=_read(f"level >= {_EXPERIENCED}"),
            prerequisites=(_FIRST,),
        ),
    ]


def _is_healthy(facts: Facts) -> bool:
    return not facts["party_count"] or 4 * facts["hp"] > facts["max_hp"]


def _read(text: str) -> Callable[[Facts], bool]:
    condition = read_condition(text, LARGEST)

    def is_met(facts: Facts) -> bool:
        game: Any = facts  # numbers, where a condition usually reads arrays
        return bool(condition.holds(game))

    return is_met
