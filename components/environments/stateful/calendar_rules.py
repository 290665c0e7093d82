"""The calendar: people with busy slots, meetings of one slot, and the tools that change them. Nobody is ever booked twice."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from components.environments.shared.text import shown
from components.environments.stateful.tools import Argument, Done, Refusal, Tool, declared


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Meeting:
    """One meeting. `people` are in alphabetical order; only one's own meetings (`own`) can be moved or cancelled."""

    title: str
    people: tuple[str, ...]
    slot: int
    own: bool = True


Meetings = tuple[Meeting, ...]
"""All that changes: the meetings in the order of their titles, each title once."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """What never changes: how many slots the day has (counted from 1), and when each person is busy anyway."""

    num_slots: int
    busy: Mapping[str, frozenset[int]]
    max_meetings: int

    def is_free(self, meetings: Meetings, people: Iterable[str], slot: int, *, apart_from: str | None = None) -> bool:
        """Whether nobody of `people` is busy or in a meeting in `slot`; the meeting `apart_from` does not count."""
        return not any(slot in self.busy[person] for person in people) and not any(
            meeting.slot == slot and meeting.title != apart_from and {*meeting.people} & {*people}
            for meeting in meetings
        )

    def free_slots(
        self, meetings: Meetings, people: Sequence[str], window: tuple[int, int], *, apart_from: str | None = None
    ) -> Iterator[int]:
        """The slots from first to last of `window` in which all are free, earliest first."""
        first, last = max(1, window[0]), min(self.num_slots, window[1])
        return (s for s in range(first, last + 1) if self.is_free(meetings, people, s, apart_from=apart_from))

    def tools(self) -> dict[str, Tool[Meetings]]:
        """The tools by name."""
        title, people = Argument(kind="text"), Argument(kind="texts")
        slot = Argument(kind="integer", high=self.num_slots)
        in_slot = {"title": title, "slot": slot}
        by_people = {"title": title, "people": people, "slot": slot}
        return declared(
            [
                ("free", "lists the slots in which all of them are free", self._free, {"people": people}),
                ("meet", "makes a meeting of exactly these people", self._meet, by_people),
                ("move", "moves a meeting to another slot", self._move, in_slot),
                ("cancel", "removes a meeting", self._cancel, {"title": title}),
            ]
        )

    def _unknown(self, people: Sequence[str]) -> Refusal | None:
        for person in people:
            if person not in self.busy:
                return Refusal(type="not_found", message=f"nobody is called {shown(person)}")
        return None

    def _free(self, meetings: Meetings, given: Mapping[str, Any]) -> Done[Meetings] | Refusal:
        refusal = self._unknown(given["people"])
        if refusal is not None:
            return refusal
        return Done(state=meetings, value=[*self.free_slots(meetings, given["people"], (1, self.num_slots))])

    def _meet(self, meetings: Meetings, given: Mapping[str, Any]) -> Done[Meetings] | Refusal:
        people, title, slot = tuple(sorted({*given["people"]})), given["title"], given["slot"]
        refusal = self._unknown(people)
        if refusal is not None:
            return refusal
        if not is_title(title):
            return Refusal(type="bad_value", message="a title has 1 to 10 of the letters a to z")
        if found(meetings, title):
            return Refusal(type="conflict", message=f"{title} exists")
        if len(meetings) >= self.max_meetings:
            return Refusal(type="conflict", message="too many meetings; cancel one")
        if not self.is_free(meetings, people, slot):
            return Refusal(type="conflict", message=f"not all are free in slot {slot}")
        return Done(state=tuple(sorted([*meetings, Meeting(title=title, people=people, slot=slot)])))

    def _own(self, meetings: Meetings, title: str) -> Meeting | Refusal:
        meeting = found(meetings, title)
        if meeting is None:
            return Refusal(type="not_found", message=f"no meeting {shown(title)}")
        return meeting if meeting.own else Refusal(type="permission", message=f"{title} is not yours")

    def _move(self, meetings: Meetings, given: Mapping[str, Any]) -> Done[Meetings] | Refusal:
        meeting = self._own(meetings, given["title"])
        if isinstance(meeting, Refusal):
            return meeting
        if meeting.slot == given["slot"]:
            return Refusal(type="conflict", message=f"{meeting.title} is in slot {meeting.slot} already")
        if not self.is_free(meetings, meeting.people, given["slot"], apart_from=meeting.title):
            return Refusal(type="conflict", message=f"not all are free in slot {given['slot']}")
        return Done(state=tuple(replace(m, slot=given["slot"]) if m is meeting else m for m in meetings))

    def _cancel(self, meetings: Meetings, given: Mapping[str, Any]) -> Done[Meetings] | Refusal:
        meeting = self._own(meetings, given["title"])
        if isinstance(meeting, Refusal):
            return meeting
        return Done(state=tuple(other for other in meetings if other is not meeting))


def found(meetings: Meetings, title: str) -> Meeting | None:
    """The meeting of that title, if there is one."""
    return next((meeting for meeting in meetings if meeting.title == title), None)


def is_title(text: str) -> bool:
    """Whether a meeting may be called so."""
    return len(text) <= 10 and text.isascii() and text.isalpha() and text.islower()
