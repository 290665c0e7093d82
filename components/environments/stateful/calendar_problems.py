"""Random calendar problems."""

from dataclasses import dataclass
from random import Random
from typing import Any

PEOPLE = ("ann", "bob", "cleo", "dan", "eve", "finn", "gus", "ida")
TITLES = ("audit", "budget", "demo", "lunch", "pitch", "plan", "retro", "review", "sync", "talk", "test", "training")
_PROBABILITY_BUSY = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    num_people: int
    num_slots: int
    num_own: int
    num_others: int
    goals: tuple[str, ...]
    """The kinds of the requests."""


_LEVELS = (
    _Level(num_people=2, num_slots=5, num_own=1, num_others=0, goals=("meet",)),
    _Level(num_people=3, num_slots=6, num_own=2, num_others=0, goals=("move", "meet")),
    _Level(num_people=4, num_slots=8, num_own=3, num_others=1, goals=("cancel", "move", "meet")),
    _Level(num_people=5, num_slots=9, num_own=4, num_others=2, goals=("cancel", "move", "meet", "meet")),
)


def draw_calendar(level: int, rng: Random) -> dict[str, Any] | None:
    """A problem, possibly unsolvable, or None if there are too few meetings for the requests."""
    shape = _LEVELS[level]
    people = sorted(rng.sample(PEOPLE, shape.num_people))
    slots = range(1, shape.num_slots + 1)
    busy = {person: [slot for slot in slots if rng.random() < _PROBABILITY_BUSY] for person in people}
    titles = rng.sample(TITLES, shape.num_own + shape.num_others + shape.goals.count("meet"))
    meetings: list[dict[str, Any]] = []
    for number in range(shape.num_own + shape.num_others):
        attendees = _attendees(people, rng)
        taken = {meeting["slot"] for meeting in meetings if {*meeting["people"]} & {*attendees}}
        free = [slot for slot in slots if slot not in taken and not any(slot in busy[person] for person in attendees)]
        if free:
            own = number < shape.num_own
            slot = rng.choice(free)
            meetings.append({"title": titles.pop(), "people": attendees, "slot": slot, "own": own})
    if sum(meeting["own"] for meeting in meetings) < shape.num_own:
        return None
    goals = _goals(shape, people, titles, [meeting for meeting in meetings if meeting["own"]], rng)
    return {
        "num_slots": shape.num_slots,
        "busy": [[person, busy[person]] for person in people],
        "meetings": meetings,
        "goals": goals,
    }


def _goals(
    shape: _Level, people: list[str], titles: list[str], own: list[dict[str, Any]], rng: Random
) -> list[dict[str, Any]]:
    """Requests in random order, at most one per meeting; a move leaves the current slot."""
    goals: list[dict[str, Any]] = []
    for kind in shape.goals:
        first, last = _window(shape.num_slots, rng)
        if kind == "meet":
            goal = {"title": titles.pop(), "people": _attendees(people, rng), "first": first, "last": last}
        else:
            meeting = own.pop(rng.randrange(len(own)))
            goal = {"title": meeting["title"]}
            if kind == "move":
                while first <= meeting["slot"] <= last:
                    first, last = _window(shape.num_slots, rng)
                goal |= {"first": first, "last": last}
        goals.append({"do": kind, **goal})
    rng.shuffle(goals)
    return goals


def _window(num_slots: int, rng: Random) -> tuple[int, int]:
    length = rng.randint(2, 3)
    first = rng.randint(1, num_slots - length + 1)
    return first, first + length - 1


def _attendees(people: list[str], rng: Random) -> list[str]:
    return sorted(rng.sample(people, rng.randint(1, min(3, len(people)))))
