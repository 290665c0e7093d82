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
_FIRST, _NUM_BADGES = "get the first monster", 8


class GoalPriority(IntEnum):
    """How much a goal matters; the smallest goes first."""

    EMERGENCY = 1
    CRITICAL = 2
    HIGH = 3
    MEDIUM = 4
    LOW = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """Something to reach, which is pursued until `is_met` of the facts, once its prerequisites have been met."""

    name: str
    priority: GoalPriority
    is_met: Callable[[Facts], bool]
    prerequisites: tuple[str, ...] = ()


class GoalOrientedPlanner:
    """The goals of a player: health, the first monster, the badges one after another, level 15; and those that are added.

    **Example** in a new game `update(info["facts"])` makes "get the first monster" the `current_goal`.
    """

    def __init__(self) -> None:
        self._goals: dict[str, Goal] = {}
        self._met: set[str] = set()
        self.current_goal: Goal | None = None
        """The goal that `update` has chosen last."""
        self.add_goal("stay healthy", _is_healthy, priority=GoalPriority.EMERGENCY)
        self.add_goal(_FIRST, "party_count > 0", priority=GoalPriority.CRITICAL)
        for number in range(1, _NUM_BADGES + 1):
            before = [_FIRST if number == 1 else f"win badge {number - 1}"]
            condition = f"johto_badges >= {number}"
            self.add_goal(f"win badge {number}", condition, priority=GoalPriority.HIGH, prerequisites=before)
        self.add_goal("reach level 15", "level >= 15", prerequisites=[_FIRST])
        self.has_own_goals = False

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
        if name in self._goals:
            raise ConfigurationError(f"goal {name!r} is there already: choose another name")
        for each in prerequisites:
            if each not in self._goals:
                raise ConfigurationError(f"goal {each!r}: there is none of this name; {suggest(each, self._goals)}")
        is_met = _read(condition) if isinstance(condition, str) else condition
        self._goals[name] = Goal(name=name, priority=priority, is_met=is_met, prerequisites=tuple(prerequisites))
        self.has_own_goals = True
        return self._goals[name]

    def update(self, facts: Facts) -> Goal | None:
        """The goal to pursue in this state: the first of the highest priority that is not met, and whose prerequisites are.

        What was met once stays met until `reset`, but for the goals of survival.
        """
        game = {name: int(facts.get(name, 0)) for name in LARGEST}
        met = self._met | {name for name, goal in self._goals.items() if goal.is_met(game)}
        self._met = {name for name in met if self._goals[name].priority is not GoalPriority.EMERGENCY}
        ready = [goal for name, goal in self._goals.items() if name not in met and met >= set(goal.prerequisites)]
        self.current_goal = min(ready, key=lambda goal: goal.priority, default=None)
        return self.current_goal

    def reset(self) -> None:
        """A new episode: no goal has been met."""
        self._met, self.current_goal = set(), None

    @property
    def is_emergency(self) -> bool:
        """Whether the goal to pursue now is one of survival."""
        return self.current_goal is not None and self.current_goal.priority is GoalPriority.EMERGENCY


def _is_healthy(facts: Facts) -> bool:
    return not facts["party_count"] or 4 * facts["hp"] > facts["max_hp"]


def _read(text: str) -> Callable[[Facts], bool]:
    condition = read_condition(text, LARGEST)

    def is_met(facts: Facts) -> bool:
        game: Any = facts  # numbers, where a condition usually reads arrays
        return bool(condition.holds(game))

    return is_met
