"""calendar: make, move and cancel meetings until all requests are met and nothing else has changed."""

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from components.environments.stateful.calendar_problems import PEOPLE, TITLES, draw_calendar
from components.environments.stateful.calendar_rules import Calendar, Meeting, Meetings, find_meeting
from components.environments.stateful.environment import WorldEnvironment
from components.environments.stateful.tool_world import ToolWorld, first_solving, highlight_goal
from components.environments.stateful.tools import Call

_SPARE_MEETINGS = 3
"""How many meetings beyond the needed ones may be made."""
_PLANNER_GUIDE = (
    "You see: the requests, | all meetings as title@slot with their people (* marks those of others, which nobody can "
    "change), | the news. A window 2-4 is the slots 2, 3 and 4. All requests shall be met and all else be as it was.\n"
    "Steps: `meet TITLE PERSON,PERSON FIRST-LAST`, `move TITLE FIRST-LAST`, `cancel TITLE`; each is done in the earliest slot "
    "of its window that is free then, so the order matters. Answer with at most {max_steps} steps separated by `;` and nothing "
    "else. Example: meet opera zoe 1-2;cancel opera"
)
_TOOL_GUIDE = (
    "After the plan you see: the slots of each person from the first to the last (. free, # busy, o in a meeting), | all "
    "meetings as title@slot with their people (* marks those of others), | the answers. Take the earliest free slot of a "
    'window. Example: [{"tool":"free","people":["zoe"]}]'
)


class CalendarWorld(ToolWorld[Meetings]):
    """One calendar and the requests."""

    step_pattern = re.compile(
        r"meet [a-z]{1,10} [a-z]{1,10}(?:,[a-z]{1,10}){0,2} [1-9]-[1-9]|move [a-z]{1,10} [1-9]-[1-9]|cancel [a-z]{1,10}"
    )
    planner_guide = _PLANNER_GUIDE
    tool_guide = _TOOL_GUIDE
    max_step_characters = len("meet  ,, 1-2") + max(map(len, TITLES)) + 3 * max(map(len, PEOPLE))
    max_call_characters = (
        len('{"tool":"meet","title":"","people":["","",""],"slot":1}')
        + max(map(len, TITLES))
        + 3 * max(map(len, PEOPLE))
    )

    def __init__(self, payload: Mapping[str, Any]) -> None:
        super().__init__(payload)
        self.goals: Sequence[Mapping[str, Any]] = payload["goals"]
        self.goal_text = ";".join(_goal_step(goal) for goal in self.goals)
        self.start = tuple(
            sorted(
                Meeting(title=m["title"], people=tuple(m["people"]), slot=m["slot"], own=m["own"])
                for m in payload["meetings"]
            )
        )
        self.calendar = Calendar(
            payload["num_slots"],
            {person: frozenset(slots) for person, slots in payload["busy"]},
            len(self.start) + len(self.goals) + _SPARE_MEETINGS,
        )
        self.tools = self.calendar.tools()
        asked = {goal["title"] for goal in self.goals}
        self._kept = [meeting for meeting in self.start if meeting.title not in asked]
        self._known_titles = sorted(asked | {meeting.title for meeting in self.start})

    def distance(self, state: Meetings) -> int:
        """The number of unmet requests, of changed meetings that should have stayed, and of unrequested meetings."""
        unmet = sum(not self._is_met(goal, state) for goal in self.goals)
        disturbed = sum(meeting not in state for meeting in self._kept)
        return unmet + disturbed + len(self._strange(state))

    def _is_met(self, goal: Mapping[str, Any], state: Meetings) -> bool:
        meeting = find_meeting(state, goal["title"])
        if goal["do"] == "cancel" or meeting is None:
            return goal["do"] == "cancel" and meeting is None
        return meeting.people == self._people_of(goal) and goal["first"] <= meeting.slot <= goal["last"]

    def _people_of(self, goal: Mapping[str, Any]) -> tuple[str, ...]:
        """The people of a requested meeting; moving a meeting keeps its people."""
        original = find_meeting(self.start, goal["title"])
        return original.people if original else tuple(goal["people"])

    def _strange(self, state: Meetings) -> list[Meeting]:
        return [meeting for meeting in state if meeting.title not in self._known_titles]

    def planner_view(self, state: Meetings) -> str:
        return _meetings_text(state)

    def tool_view(self, state: Meetings) -> str:
        rows = ",".join(f"{person} {self._row(person, state)}" for person in self.calendar.busy)
        return f"{rows}|{_meetings_text(state)}"

    def _row(self, person: str, state: Meetings) -> str:
        taken = {meeting.slot for meeting in state if person in meeting.people}
        slots = range(1, self.calendar.num_slots + 1)
        return "".join("#" if slot in self.calendar.busy[person] else "o" if slot in taken else "." for slot in slots)

    def calls_for(self, state: Meetings, step: str) -> list[Call]:
        verb, title, *rest = step.split()
        meeting = find_meeting(state, title)
        if verb == "cancel":
            return [{"tool": "cancel", "title": title}] if meeting else []
        first, last = (int(slot) for slot in rest[-1].split("-"))
        if verb == "move":
            if meeting is None or first <= meeting.slot <= last:
                return []
            slots = self.calendar.free_slots(state, meeting.people, (first, last), apart_from=title)
            return [{"tool": "move", "title": title, "slot": slot} for slot in [*slots][:1]]
        people = rest[0].split(",")
        if meeting or not {*people} <= {*self.calendar.busy}:
            return []
        slots = self.calendar.free_slots(state, people, (first, last))
        return [{"tool": "meet", "title": title, "people": people, "slot": slot} for slot in [*slots][:1]]

    def expert_steps(self, state: Meetings) -> list[str]:
        """Cancels, restores, moves, then makes; if that fails, cancels every requested or changed meeting first."""
        return first_solving(self, state, (self._steps(state, afresh=afresh) for afresh in (False, True)))

    def _steps(self, state: Meetings, *, afresh: bool) -> list[str]:
        cancelled = {meeting.title for meeting in self._strange(state)}
        restored, moved, made = [], [], []
        for kept in self._kept:
            current = find_meeting(state, kept.title)
            if current != kept and current is not None and current.people == kept.people and not afresh:
                moved.append(f"move {kept.title} {kept.slot}-{kept.slot}")
            elif current != kept:
                cancelled |= {kept.title} if current else set()
                restored.append(f"meet {kept.title} {','.join(kept.people)} {kept.slot}-{kept.slot}")
        for goal in self.goals:
            current = find_meeting(state, goal["title"])
            wrong_people = current is not None and current.people != self._people_of(goal)
            if self._is_met(goal, state) and not afresh:
                continue
            if current is not None and not wrong_people and goal["do"] != "cancel" and not afresh:
                moved.append(f"move {goal['title']} {goal['first']}-{goal['last']}")
                continue
            cancelled |= {goal["title"]} if current else set()
            if goal["do"] != "cancel":
                people = ",".join(self._people_of(goal))
                made.append(f"meet {goal['title']} {people} {goal['first']}-{goal['last']}")
        return [*(f"cancel {title}" for title in sorted(cancelled)), *restored, *moved, *made]

    def random_step(self, rng: Random) -> str:
        title, first = rng.choice(self._known_titles), rng.randint(1, self.calendar.num_slots - 1)
        window = f"{first}-{first + 1}"
        people = ",".join(sorted(rng.sample([*self.calendar.busy], rng.randint(1, 2))))
        return rng.choice([f"meet {title} {people} {window}", f"move {title} {window}", f"cancel {title}"])

    def random_call(self, state: Meetings, rng: Random) -> Call:
        title, slot = rng.choice(self._known_titles), rng.randint(1, self.calendar.num_slots)
        people = sorted(rng.sample([*self.calendar.busy], rng.randint(1, 2)))
        return rng.choice(
            [
                {"tool": "free", "people": people},
                {"tool": "meet", "title": title, "people": people, "slot": slot},
                {"tool": "move", "title": title, "slot": slot},
                {"tool": "cancel", "title": title},
            ]
        )

    def picture(self, state: Meetings, *, color: bool) -> str:
        rows = [f"{person:<6}{' '.join(self._row(person, state))}" for person in self.calendar.busy]
        goals = [f"goal: {highlight_goal(_goal_step(goal), color=color)}" for goal in self.goals]
        return "\n".join([*rows, f"meetings: {_meetings_text(state).replace(';', '; ') or 'none'}", *goals])


class CalendarEnvironment(WorldEnvironment[Meetings]):
    """All calendar problems.

    Level 0: one meeting to make. 1: one to move and one to make, among three people. 2 and 3: more people, meetings of others
    that stay, and some to cancel first.
    """

    world_type = CalendarWorld
    draw_level = staticmethod(draw_calendar)

    def deciding(self, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """The requests in any order; meetings and busy slots vary within a split."""
        return {"requests": sorted(map(_goal_step, problem["goals"]))}


def _goal_step(goal: Mapping[str, Any]) -> str:
    """A request as the step that meets it: `meet sync ann,bob 2-4`."""
    if goal["do"] == "cancel":
        return f"cancel {goal['title']}"
    people = f"{','.join(goal['people'])} " if goal["do"] == "meet" else ""
    return f"{goal['do']} {goal['title']} {people}{goal['first']}-{goal['last']}"


def _meetings_text(meetings: Meetings) -> str:
    """**Example** `demo@3 ann,bob;lunch@2* eve`."""
    return ";".join(f"{m.title}@{m.slot}{'' if m.own else '*'} {','.join(m.people)}" for m in meetings)
