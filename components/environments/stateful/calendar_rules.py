"""The calendar: people with busy slots, meetings of one slot, and the tools that change them. Nobody is double-booked."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from components.environments.shared.text import quote_start
from components.environments.stateful.tools import Argument, Done, Given, Refusal, Tool, declare_tools


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Meeting:
    """One meeting. `people` are in alphabetical order; only one's own meetings (`own`) can be moved or cancelled."""

    title: str
    people: tuple[str, ...]
    slot: int
    own: bool = True


Meetings = tuple[Meeting, ...]
"""The mutable part: the meetings in order of their titles, which are unique."""


@dataclass(frozen=True, slots=True)
class Calendar:
    """The constant part: the number of slots in the day (counted from 1), and each person's busy slots."""

    num_slots: int
    busy: Mapping[str, frozenset[int]]
    max_meetings: int

    def is_free(self, meetings: Meetings, people: Iterable[str], slot: int, *, apart_from: str | None = None) -> bool:
        """Whether all `people` are free in `slot`; the meeting `apart_from` is ignored."""
        return not any(slot in self.busy[person] for person in people) and not any(
            meeting.slot == slot and meeting.title != apart_from and {*meeting.people} & {*people}
            for meeting in meetings
        )

    def free_slots(
        self, meetings: Meetings, people: Sequence[str], window: tuple[int, int], *, apart_from: str | None = None
    ) -> Iterator[int]:
        """The slots of `window` (first, last) in which all are free, earliest first."""
        first, last = max(1, window[0]), min(self.num_slots, window[1])
        return (s for s in range(first, last + 1) if self.is_free(meetings, people, s, apart_from=apart_from))

    def tools(self) -> dict[str, Tool[Meetings]]:
        """The tools by name."""
        title, people = Argument(kind="text"), Argument(kind="texts")
        slot = Argument(kind="integer", high=self.num_slots)
        in_slot = {"title": title, "slot": slot}
        by_people = {"title": title, "people": people, "slot": slot}
        return declare_tools(
            [
                ("free", "lists the slots in which all of them are free", self._free, {"people": people}),
                ("meet", "makes a meeting of exactly these people", self._meet, by_people),
                ("move", "moves a meeting to another slot", self._move, in_slot),
                ("cancel", "removes a meeting", self._cancel, {"title": title}),
            ]
        )

    def _check_known(self, people: Sequence[str]) -> None:
        for person in people:
            if person not in self.busy:
                raise Refusal(type="not_found", message=f"nobody is called {quote_start(person)}")

    def _free(self, meetings: Meetings, given: Given) -> Done[Meetings]:
        self._check_known(given["people"])
        return Done(state=meetings, value=[*self.free_slots(meetings, given["people"], (1, self.num_slots))])

    def _meet(self, meetings: Meetings, given: Given) -> Done[Meetings]:
        people, title, slot = tuple(sorted({*given["people"]})), given["title"], given["slot"]
        self._check_known(people)
        if not is_title(title):
            raise Refusal(type="bad_value", message="a title has 1 to 10 of the letters a to z")
        if find_meeting(meetings, title):
            raise Refusal(type="conflict", message=f"{title} exists")
        if len(meetings) >= self.max_meetings:
            raise Refusal(type="conflict", message="too many meetings; cancel one")
        if not self.is_free(meetings, people, slot):
            raise Refusal(type="conflict", message=f"not all are free in slot {slot}")
        return Done(state=tuple(sorted([*meetings, Meeting(title=title, people=people, slot=slot)])))

    def _move(self, meetings: Meetings, given: Given) -> Done[Meetings]:
        meeting = _own(meetings, given["title"])
        if meeting.slot == given["slot"]:
            raise Refusal(type="conflict", message=f"{meeting.title} is in slot {meeting.slot} already")
        if not self.is_free(meetings, meeting.people, given["slot"], apart_from=meeting.title):
            raise Refusal(type="conflict", message=f"not all are free in slot {given['slot']}")
        return Done(state=tuple(replace(m, slot=given["slot"]) if m is meeting else m for m in meetings))

    def _cancel(self, meetings: Meetings, given: Given) -> Done[Meetings]:
        meeting = _own(meetings, given["title"])
        return Done(state=tuple(other for other in meetings if other is not meeting))


def _own(meetings: Meetings, title: str) -> Meeting:
    meeting = find_meeting(meetings, title)
    if meeting is None:
        raise Refusal(type="not_found", message=f"no meeting {quote_start(title)}")
    if not meeting.own:
        raise Refusal(type="permission", message=f"{title} is not yours")
    return meeting


def find_meeting(meetings: Meetings, title: str) -> Meeting | None:
    """The meeting with that title, if any."""
    return next((meeting for meeting in meetings if meeting.title == title), None)


def is_title(text: str) -> bool:
    """Whether `text` is a valid title."""
    return len(text) <= 10 and text.isascii() and text.isalpha() and text.islower()
