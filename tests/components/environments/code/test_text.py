"""What agents read is printable ASCII of bounded length, and nothing of it is lost silently."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.code.text import nests_deep, plain_prose, printable
from components.environments.shared.text import PRINTABLE, shorten


@given(text=st.text() | st.text(st.characters(max_codepoint=0x2FFF)))
def test_every_text_becomes_printable_ascii(text: str) -> None:
    for made in (printable(text), plain_prose(text)):
        assert {*made} <= {*PRINTABLE}


@given(text=st.text(PRINTABLE))
def test_printable_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == plain_prose(text) == text


def test_signs_of_statements_have_their_usual_spelling() -> None:
    assert plain_prose("1 ≤ n ≤ 10⁵, “é” → x\t…\r\n") == '1 <= n <= 105, "e" -> x    ...\n'
    assert printable("é\x00") == "\\xe9\\x00"


@pytest.mark.parametrize(("limit", "short"), [(9, "abcdefgh"), (8, "abcdefgh"), (7, "abcd..."), (3, "...")])
def test_what_is_cut_says_so(limit: int, short: str) -> None:
    assert shorten("abcdefgh", limit) == short


@given(
    value=st.recursive(st.text("\"'[]{}\\a", max_size=5), lambda inner: st.lists(inner, max_size=2), max_leaves=20),
    depth=st.integers(0, 100),
)
def test_depth_is_counted_outside_quotes_alone(value: object, depth: int) -> None:
    plain = json.dumps("[" * 200)
    assert nests_deep("[" * depth + plain + "]" * depth) == (depth > 64)
    assert not nests_deep(json.dumps(value) + plain)
