"""Both roles' grammars: short forms, long forms, thoughts, and everything that is refused."""

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.search.grammar import Note, Search, parse_reasoner, parse_searcher, resolve_references
from components.environments.search.sizes import SIZES_BY_LEVEL
from components.errors import MalformedAction
from tests.costs import assert_cheap

SIZES = SIZES_BY_LEVEL[1].model_copy(update={"num_lines": 3, "line_characters": 30})
MARKED = st.lists(
    st.sampled_from(
        ["?", "=", "###", "####", "#1 =", "#", "Answer:", "**Search Query:**", "words", " ", "\n", "\x0b", "\ud800"]
    ),
    max_size=12,
).map("".join)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("?boss of Kozu", (Search(text="boss of Kozu"),)),
        ("  ?  boss   of Kozu ", (Search(text="boss of Kozu"),)),
        ("Search Query: boss of Kozu", (Search(text="boss of Kozu"),)),
        ("Query: ann home", (Search(text="ann home"),)),
        ("**Search Query:** boss", (Search(text="boss"),)),
        ("I think:\n?boss\nthat is all", (Search(text="boss"),)),
        ("#1=Ann\n?home of #1", (Note(number=1, text="Ann"), Search(text="home of #1"))),
        ("#12 = Ann Toval", (Note(number=12, text="Ann Toval"),)),
    ],
)
def test_what_the_searcher_may_write(text: str, lines: tuple[Search | Note, ...]) -> None:
    assert parse_searcher(text, SIZES) == lines


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("?home of Ann", ("home of Ann",)),
        ("### home of Ann\n### who is Ann", ("home of Ann", "who is Ann")),
        ("=Timo", "Timo"),
        ("= Timo\n=Timo", "Timo"),
        ("**Answer:** Timo", "Timo"),
        ("The passages say so.\nanswer: Timo", "Timo"),
    ],
)
def test_what_the_reasoner_may_write(text: str, meant: tuple[str, ...] | str) -> None:
    assert parse_reasoner(text, SIZES) == meant


@pytest.mark.parametrize(
    "text", ["", "boss of Kozu", "?", "? \n", "?" + "x" * 31, "?a\n?b\n?c\n?d", "=Timo", "#1", "# 1 = Ann"]
)
def test_what_the_searcher_may_not_write(text: str) -> None:
    with pytest.raises(MalformedAction):
        parse_searcher(text, SIZES)


@pytest.mark.parametrize(
    "text", ["", "Timo", "=", "?", "?a\n=b", "=a\n=b", "?a\n?b\n?c\n?d", "=" + "x" * 31, "####", "#1 = Ann", "#### a"]
)
def test_what_the_reasoner_may_not_write(text: str) -> None:
    with pytest.raises(MalformedAction):
        parse_reasoner(text, SIZES)


def test_references_stand_for_answers_and_open_ones_are_refused() -> None:
    answers = ("Ann Toval", None)
    assert resolve_references("home of #1 and #1", answers) == "home of Ann Toval and Ann Toval"
    assert resolve_references("#7 hit, C#, #0", answers) == "#7 hit, C#, #0"
    with pytest.raises(MalformedAction, match="#2 has no answer"):
        resolve_references("home of #2", answers)


@settings(deadline=None)
@given(MARKED | st.text())
def test_no_text_makes_a_grammar_fail_otherwise(text: str) -> None:
    for parse in (parse_searcher, parse_reasoner):
        try:
            parse(text, SIZES)
        except MalformedAction:
            continue


def test_long_hostile_lines_are_read_in_linear_time() -> None:
    def read(text: str) -> None:
        for parse in (parse_searcher, parse_reasoner):
            with pytest.raises(MalformedAction):
                parse(text, SIZES)

    texts = ("*" * 200_000, "#" * 200_000, "#1" + " " * 200_000, "?" * 200_000, "answer:" * 30_000, "\n" * 200_000)
    assert_cheap(((text[:20], partial(read, text)) for text in texts), most_cpu_seconds=1.0)
