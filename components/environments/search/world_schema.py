"""The schema of an invented world, by level: kinds of entities, relations between them, and their wording."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

PERSON, FIRM, TOWN, WORK = "person", "firm", "town", "work"


class Relation(NamedTuple):
    """A fact that every entity of one kind has. `phrase` names the object, given the subject as `{}`.

    **Example** phrase "the founder of {}" and sentence "The founder of {subject} is {object}."
    """

    target: str
    """The kind of the object."""
    phrase: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSchema:
    """One level's world: entities of each kind per split, their facts, and the wording of both."""

    num_by_kind: Mapping[str, int]
    relations: Mapping[str, tuple[Relation, ...]]
    hops: tuple[int, ...]
    """Lengths of the chains behind the questions."""
    question: str
    """A question about the phrase `{}`."""
    introductions: Mapping[str, str]
    """The sentence before an entity's facts, by kind; empty for none."""
    joint: str
    """The separator of two facts in a passage."""


def _terse(name: str, target: str) -> Relation:
    return Relation(target, phrase=f"{name} of {{}}", sentence=f"{name} {{object}}")


_TERSE = WorldSchema(
    num_by_kind={PERSON: 300, FIRM: 150, TOWN: 150},
    relations={
        PERSON: (_terse("home", TOWN), _terse("friend", PERSON)),
        FIRM: (_terse("boss", PERSON), _terse("town", TOWN)),
        TOWN: (_terse("mayor", PERSON),),
    },
    hops=(1, 2),
    question="{}?",
    introductions={},
    joint=", ",
)
_PROSE = WorldSchema(
    num_by_kind={PERSON: 320, FIRM: 90, TOWN: 90, WORK: 140},
    relations={
        WORK: (
            Relation(PERSON, "the author of {}", "The author of {subject} is {object}."),
            Relation(FIRM, "the publisher of {}", "It is published by {object}."),
        ),
        FIRM: (
            Relation(PERSON, "the founder of {}", "The founder of {subject} is {object}."),
            Relation(TOWN, "the seat of {}", "The seat of {subject} is the town of {object}."),
        ),
        PERSON: (
            Relation(TOWN, "the birthplace of {}", "The birthplace of {subject} is {object}."),
            Relation(FIRM, "the employer of {}", "The employer of {subject} is {object}."),
            Relation(PERSON, "the teacher of {}", "The teacher of {subject} was {object}."),
        ),
        TOWN: (Relation(PERSON, "the mayor of {}", "The mayor of {subject} is {object}."),),
    },
    hops=(1, 2, 3),
    question="Who or what is {}?",
    introductions={
        WORK: "{subject} is a novel.",
        FIRM: "{subject} is a company.",
        PERSON: "{subject} is a person.",
        TOWN: "{subject} is a town.",
    },
    joint=" ",
)
_LONG = replace(_PROSE, num_by_kind={PERSON: 900, FIRM: 220, TOWN: 220, WORK: 400}, hops=(2, 3))

WORLD_BY_LEVEL: Mapping[int, WorldSchema] = {0: _TERSE, 1: _PROSE, 2: _LONG}
"""Level 0: terse facts and up to two hops. Level 1: prose and up to three hops. Level 2: larger, no single-hop questions."""
