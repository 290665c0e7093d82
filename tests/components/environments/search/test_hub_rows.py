"""Rows of each layout as questions, hops and passages."""

import re
from typing import Any

import pytest

from components.environments.search.hub_rows import question_of, read_rows
from components.environments.search.questions import Hop, Question
from components.errors import ConfigurationError
from tests.components.environments.search.layouts import (
    Row,
    bamboogle,
    flashrag_two_wiki,
    hotpotqa,
    hotpotqa_file,
    musique,
    nq,
    two_wiki,
)

PASSAGES = (
    ("Moby", "Moby is a book. Its author is Ann Toval."),
    ("Ann Toval", "Ann Toval was born in Kesson."),
    ("Rado", "Rado is a town. Nothing else."),
)
TITLE_HOPS = (Hop(title="Moby", names=("Moby",)), Hop(title="Ann Toval", names=("Ann Toval",)))


@pytest.mark.parametrize("layout", [hotpotqa, hotpotqa_file, two_wiki])
def test_context_and_supporting_titles(layout: Any) -> None:
    question, passages = question_of(layout())
    assert passages == PASSAGES
    assert question == Question(
        text="Where was the author of Moby born, number 0?", answers=("Kesson",), hops=TITLE_HOPS
    )


def test_the_same_under_metadata_with_aliases() -> None:
    question, passages = question_of(flashrag_two_wiki())
    assert passages == PASSAGES
    assert question is not None
    assert (question.answers, question.hops) == (("Kesson", "Kesson Town"), TITLE_HOPS)


def test_rows_by_name_are_read_like_columns_side_by_side() -> None:
    columns = hotpotqa()
    context = [
        {"title": title, "sentences": body}
        for title, body in zip(columns["context"]["title"], columns["context"]["sentences"], strict=True)
    ]
    facts = [{"title": "Ann Toval", "sent_id": 0}, {"title": "Moby", "sent_id": 1}]
    assert question_of({**columns, "context": context, "supporting_facts": facts}) == question_of(columns)


def test_a_decomposition_gives_hops_with_questions_and_answers() -> None:
    question, passages = question_of(musique())
    assert len(passages) == 3
    assert question is not None
    assert question.answers == ("Kesson", "Kesson Town")
    assert question.hops == (
        Hop(title="Moby", snippet="Ann Toval", names=("Moby",), question="Moby author", answer="Ann Toval"),
        Hop(
            title="Ann Toval",
            snippet="Kesson",
            names=("Ann Toval",),
            question="Ann Toval place of birth",
            answer="Kesson",
        ),
    )
    assert [question.hops[0].is_in(*passage) for passage in passages] == [False, True, False]


@pytest.mark.parametrize(
    ("row", "question"),
    [
        (nq(), Question(text="who wrote moby 0", answers=("Ann Toval", "A. Toval"))),
        (
            {"question": "who wrote moby", "answer": ["Ann Toval", "A. Toval", "the"]},
            Question(text="who wrote moby", answers=("Ann Toval", "A. Toval")),
        ),
        (bamboogle(), Question(text="Who was born where Ann Toval was, number 0?", answers=("Bob Viso",))),
    ],
)
def test_questions_without_passages(row: Row, question: Question) -> None:
    assert question_of(row) == (question, ())


def test_rows_without_a_usable_answer_are_left_out() -> None:
    rows = [
        nq(0),
        {**nq(1), "golden_answers": []},
        {**nq(2), "golden_answers": ["the", "..."]},
        {**musique(3), "answerable": False},
        {**nq(4), "question": "?"},
    ]
    questions, passages = read_rows(rows, field="f")
    assert [question.text for question in questions] == ["who wrote moby 0"]
    assert len(passages) == 3


@pytest.mark.parametrize(
    "row",
    [
        {"text": "no question", "label": 1},
        {"question": "no answer"},
        {"question": 3, "answer": "x"},
        {"question": "q", "answer": 3},
        {**hotpotqa(), "context": {"title": ["x"], "words": [[]]}},
        {**hotpotqa(), "context": [3]},
        {**musique(), "paragraphs": [{"title": "x"}]},
        {**musique(), "question_decomposition": [{"question": "#9", "answer": "x", "paragraph_support_idx": 1}]},
    ],
)
def test_another_layout_is_a_wrong_configuration_that_names_row_and_columns(row: Row) -> None:
    with pytest.raises(ConfigurationError, match=r"^environment\.options\.train: row 1 with the columns"):
        read_rows([nq(), row], field="environment.options.train")


def test_questions_whose_rows_share_no_answer_are_told(caplog: pytest.LogCaptureFixture) -> None:
    def row(question: str, *answers: str) -> Row:
        return {"question": question, "golden_answers": list(answers)}

    agreeing = [row("Who wrote it?", "Ann", "Ann Lee"), row("who wrote it", "ann lee"), row("Who read it?", "Bob")]
    assert len(read_rows(agreeing, field="environment.options.train")[0]) == 3
    assert not caplog.messages
    assert len(read_rows([*agreeing, row("Who wrote it", "Bob")], field="environment.options.train")[0]) == 4
    (told,) = caplog.messages
    assert re.search(r"^environment\.options\.train: rows .* \(1\): 'who wrote it' has 'Ann / Ann Lee' and 'Bob'", told)


def test_questions_that_differ_in_spelling_alone_have_one_id() -> None:
    texts = ("Who wrote the Moby?", "who wrote moby", "WHO  wrote: Moby!", "who wrote rado")
    ids = [Question(text=text, answers=("x",)).content for text in texts]
    assert len(set(ids[:3])) == 1
    assert ids[3] != ids[0]
