"""The invented worlds: fair chains, disjoint splits, unique names, and questions that an oracle can answer."""

import re
from functools import cache

import pytest

from components.environments.search.grading import mentions
from components.environments.search.invented_world import procedural_questions
from components.environments.search.questions import Question, QuestionSet
from components.environments.search.sizes import SIZES_BY_LEVEL
from components.environments.search.world_schema import WORLD_BY_LEVEL

LEVELS = tuple(WORLD_BY_LEVEL)


@cache
def worlds(level: int) -> QuestionSet:
    return procedural_questions(level, 0)


def oracle_answer(question: str, passages: dict[str, str]) -> str:
    """Reads "a of b of Name" from the inside out, each time looking the fact up in the text of one passage."""
    words = question.removesuffix("?").removeprefix("Who or what is ")
    *relations, name = re.split(r" of ", words)
    for relation in reversed(relations):
        relation = relation.removeprefix("the ")
        text = passages[name]
        facts = [
            rf"(?:^|, ){relation} (\w+)",
            rf"[Tt]he {relation} of {re.escape(name)} (?:is|was) (?:the town of )?([^.]+)\.",
            rf"It is {relation[:-1]}d by ([^.]+)\.",
        ]
        name = next(match[1] for fact in facts if (match := re.search(fact, text)))
    return name


@pytest.mark.parametrize("level", LEVELS)
def test_every_question_is_answered_by_the_passages_alone(level: int) -> None:
    found = worlds(level)
    passages = dict(found.passages)
    for question in (found.train + found.test)[:: 1 if level == 0 else 19]:
        assert oracle_answer(question.text, passages) == question.answers[0]


@pytest.mark.parametrize("level", LEVELS)
def test_each_hop_stands_in_a_passage_of_its_own_and_the_answer_in_the_last_alone(level: int) -> None:
    found = worlds(level)
    passages = dict(found.passages)
    for question in found.train[:: 1 if level == 0 else 19]:
        titles = [hop.title for hop in question.hops]
        assert len(set(titles)) == len(titles)
        assert len(titles) in WORLD_BY_LEVEL[level].hops
        holding = [mentions(passages[title], question.answers[0]) for title in titles]
        assert holding == [False] * (len(titles) - 1) + [True]
        assert not mentions(question.text, question.answers[0])
        assert [mentions(question.text, title) for title in titles] == [True] + [False] * (len(titles) - 1)


@pytest.mark.parametrize("level", LEVELS)
def test_the_splits_share_no_question_no_entity_and_no_answer(level: int) -> None:
    found = worlds(level)

    def entities(questions: tuple[Question, ...]) -> set[str]:
        return {name for question in questions for name in (*question.answers, *(hop.title for hop in question.hops))}

    train, test = found.train, found.test
    assert min(len(train), len(test)) > 2000
    assert not {question.content for question in train} & {question.content for question in test}
    assert not entities(train) & entities(test)
    assert len({question.content for question in train}) == len(train)


@pytest.mark.parametrize("level", LEVELS)
def test_names_are_unique_and_everything_is_plain_ascii(level: int) -> None:
    found = worlds(level)
    titles = [title for title, _ in found.passages]
    assert len({title.lower() for title in titles}) == len(titles)
    assert all(text.isascii() and text.isprintable() for passage in found.passages for text in passage)


def test_all_chain_lengths_occur() -> None:
    for level in LEVELS:
        assert {len(question.hops) for question in worlds(level).test} == {*WORLD_BY_LEVEL[level].hops}


def test_a_world_is_a_pure_function_of_level_and_number() -> None:
    assert procedural_questions(0, 0) == worlds(0)
    other = procedural_questions(0, 1)
    assert other.train != worlds(0).train
    assert other.passages != worlds(0).passages


@pytest.mark.parametrize("level", LEVELS)
def test_questions_and_passages_fit_into_the_levels_sizes(level: int) -> None:
    found, sizes = worlds(level), SIZES_BY_LEVEL[level]
    assert max(len(question.text) for question in found.train) <= sizes.question_characters
    assert max(len(f"+ {title}: {text}") for title, text in found.passages) <= sizes.passage_characters
    for question in found.train:
        for hop in question.hops:
            assert max(len(hop.question), len(hop.answer)) <= sizes.line_characters
