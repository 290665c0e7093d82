"""The procedural questions: two invented worlds, one per split, and every fair chain of facts in them as a question.

Each entity has one passage with all its facts, so the links of a chain are in different passages. The worlds share no
name, so the splits share no passage, answer or question; the corpus holds the passages of both.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from random import Random

from components.environments.search.names import firm_names, person_names, place_names, short_names, work_names
from components.environments.search.questions import Hop, Question, QuestionSet
from components.environments.search.world_schema import FIRM, PERSON, TOWN, WORK, WORLD_BY_LEVEL, Relation, WorldSchema
from components.identity import seed_for

Walk = tuple[tuple[str, Relation, str], ...]
"""Steps of subject, relation and object; each object is the next subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InventedWorld:
    """Each entity with its relations and their objects, and with its passage."""

    schema: WorldSchema
    facts: Mapping[str, tuple[tuple[Relation, str], ...]]
    passages: Mapping[str, str]


def procedural_questions(level: int, world_seed: int) -> QuestionSet:
    """All questions of both splits and the corpus: a pure function of its arguments.

    **Example** level 0: `Question("home of boss of Kozu?", ("Timo",))`, over the passages `("Kozu", "boss Nali, town Rado")`
    and `("Nali", "home Timo, friend Viso")`.
    """
    schema = WORLD_BY_LEVEL[level]
    names = _names(schema, level, Random(seed_for(world_seed, "search names", level)))
    rng = Random(seed_for(world_seed, "search worlds", level))
    train, test = (_world(schema, names, rng) for _ in ("train", "test"))
    passages = [*train.passages.items(), *test.passages.items()]
    return QuestionSet(
        train=tuple(_questions(train)),
        test=tuple(_questions(test)),
        passages=tuple(rng.sample(passages, len(passages))),
    )


def _names(schema: WorldSchema, level: int, rng: Random) -> Mapping[str, Iterator[str]]:
    """A stream of names for each kind; no two kinds share a name."""
    if level == 0:
        return dict.fromkeys(schema.num_by_kind, short_names(rng))
    places = place_names(rng)
    return {
        PERSON: person_names(places, rng),
        FIRM: firm_names(places, rng),
        TOWN: places,
        WORK: work_names(places, rng),
    }


def _world(schema: WorldSchema, names: Mapping[str, Iterator[str]], rng: Random) -> InventedWorld:
    members = {kind: list(islice(names[kind], count)) for kind, count in schema.num_by_kind.items()}
    kinds = {name: kind for kind, entities in members.items() for name in entities}
    assert len(kinds) == sum(schema.num_by_kind.values()), "too few names, or one given twice"
    facts = {
        subject: tuple(
            (relation, _other(members[relation.target], subject, rng)) for relation in schema.relations[kind]
        )
        for subject, kind in kinds.items()
    }
    passages = {subject: _passage(schema, kinds[subject], subject, told) for subject, told in facts.items()}
    return InventedWorld(schema=schema, facts=facts, passages=passages)


def _other(entities: list[str], subject: str, rng: Random) -> str:
    """A random entity other than the subject."""
    while (chosen := rng.choice(entities)) == subject:
        pass
    return chosen


def _passage(schema: WorldSchema, kind: str, subject: str, facts: tuple[tuple[Relation, str], ...]) -> str:
    sentences = [relation.sentence.format(subject=subject, object=told) for relation, told in facts]
    introduction = schema.introductions.get(kind, "").format(subject=subject)
    return schema.joint.join([introduction, *sentences] if introduction else sentences)


def _questions(world: InventedWorld) -> Iterator[Question]:
    """Every fair chain as a question, the shortest first."""
    for num_hops in world.schema.hops:
        for subject in world.facts:
            yield from (_question(world, walk) for walk in _walks(world, subject, num_hops) if _is_fair(world, walk))


def _walks(world: InventedWorld, subject: str, num_hops: int) -> Iterator[Walk]:
    if num_hops == 0:
        yield ()
        return
    for relation, told in world.facts[subject]:
        for rest in _walks(world, told, num_hops - 1):
            yield ((subject, relation, told), *rest)


def _is_fair(world: InventedWorld, walk: Walk) -> bool:
    """Whether only the last passage names the answer, and no entity occurs twice."""
    met = [walk[0][0], *(told for _, _, told in walk)]
    earlier = chain.from_iterable(world.facts[subject] for subject, _, _ in walk[:-1])
    return len(set(met)) == len(met) and all(told != met[-1] for _, told in earlier)


def _question(world: InventedWorld, walk: Walk) -> Question:
    phrase = walk[0][0]
    for _, relation, _ in walk:
        phrase = relation.phrase.format(phrase)
    hops = tuple(
        Hop(
            title=subject,
            names=(subject,),
            question=world.schema.question.format(relation.phrase.format(subject)).rstrip("?"),
            answer=told,
        )
        for subject, relation, told in walk
    )
    return Question(text=world.schema.question.format(phrase), answers=(walk[-1][2],), hops=hops)
