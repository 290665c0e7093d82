"""What an invented world consists of, level by level: kinds of entities, relations between them, and how both are worded."""

from collections.abc import Mapping
from dataclasses import dataclass

PERSON, FIRM, TOWN, WORK = "person", "firm", "town", "work"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A fact that every entity of one kind has. `phrase` names its object from its subject, `{}`.

    **Example** phrase "the founder of {}" and sentence "The founder of {subject} is {object}."
    """

    name: str
    target: str
    phrase: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSchema:
    """One level's world: how many entities of each kind a split has, which facts they have, how it is all worded."""

    num_by_kind: Mapping[str, int]
    relations: Mapping[str, tuple[Relation, ...]]
    hops: tuple[int, ...]
    """Lengths of the chains that questions walk."""
    question: str
    """A question about the phrase `{}`."""
    introductions: Mapping[str, str]
    """The sentence before an entity's facts, by kind; empty for none."""
    joint: str
    """What stands between two facts of a passage."""


def _terse(name: str, target: str) -> Relation:
    return Relation(name=name, target=target, phrase=f"{name} of {{}}", sentence=f"{name} {{object}}")


def _prose(name: str, target: str, phrase: str, sentence: str) -> Relation:
    return Relation(name=name, target=target, phrase=phrase, sentence=sentence)


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
            _prose("author", PERSON, "the author of {}", "The author of {subject} is {object}."),
            _prose("publisher", FIRM, "the publisher of {}", "It is published by {object}."),
        ),
        FIRM: (
            _prose("founder", PERSON, "the founder of {}", "The founder of {subject} is {object}."),
            _prose("seat", TOWN, "the seat of {}", "The seat of {subject} is the town of {object}."),
        ),
        PERSON: (
            _prose("birthplace", TOWN, "the birthplace of {}", "The birthplace of {subject} is {object}."),
            _prose("employer", FIRM, "the employer of {}", "The employer of {subject} is {object}."),
            _prose("teacher", PERSON, "the teacher of {}", "The teacher of {subject} was {object}."),
        ),
        TOWN: (_prose("mayor", PERSON, "the mayor of {}", "The mayor of {subject} is {object}."),),
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
_LONG = WorldSchema(
    num_by_kind={PERSON: 900, FIRM: 220, TOWN: 220, WORK: 400},
    relations=_PROSE.relations,
    hops=(2, 3),
    question=_PROSE.question,
    introductions=_PROSE.introductions,
    joint=_PROSE.joint,
)

WORLD_BY_LEVEL: Mapping[int, WorldSchema] = {0: _TERSE, 1: _PROSE, 2: _LONG}
"""Level -> world: 0 in a few characters and up to two hops, 1 in prose and up to three, 2 larger, with no easy question."""
