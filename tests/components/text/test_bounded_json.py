"""Untrusted JSON is parsed as usual, or refused before it takes time or memory."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.text.bounded_json import MAX_VALUES, parse_bounded_json
from tests.costs import assert_cheap

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=20,
)


def num_values(value: Any) -> int:
    """Values below the outermost one."""
    inner = [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else []
    return len(inner) + sum(map(num_values, inner))


@given(value=VALUES, ascii_only=st.booleans())
def test_every_value_comes_back_and_its_values_are_what_is_bounded(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    most = num_values(value) + text.count("[]") + text.count("{}") + 1
    for content in (text, text.encode("utf-8", "surrogatepass") if ascii_only else text):
        assert parse_bounded_json(content, max_length=len(content), max_values=most) == value
    with pytest.raises(ValueError, match="JSON of length"):
        parse_bounded_json(text, max_length=len(text) - 1)


def test_marks_inside_of_strings_are_no_values() -> None:
    text = json.dumps(['[{,\\"' * MAX_VALUES, 1])
    assert parse_bounded_json(text) == parse_bounded_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[" + "[]," * MAX_VALUES + "0]", "values; at most 500000 are read"),
        ("[" + '{"":0},' * MAX_VALUES + "0]", "values; at most 500000 are read"),
        ('"' + '\\"' * 2_000_000 + "," * 2_000_000, "Unterminated string"),
        ("[" * 400_000, "nested too deep"),
        ('{"a":' * 100_000, "nested too deep"),
        ("9" * 100_000, "4300"),
        ("", "Expecting value"),
    ],
    ids=["lists", "objects", "an open string", "deep lists", "deep objects", "digits", "nothing"],
)
def test_what_is_refused_is_refused_cheaply_and_by_name(text: str, words: str) -> None:
    def expect_refusal(content: str | bytes) -> None:
        with pytest.raises(ValueError, match=words):
            parse_bounded_json(content)

    assert_cheap([("text", lambda: expect_refusal(text)), ("bytes", lambda: expect_refusal(text.encode()))])


def test_as_many_values_as_may_be_read_are_read_cheaply() -> None:
    for unit in ("[],", "{},", '{"":0},', "1.5,", "123456789,", '"ab",'):
        text = "[" + unit * (MAX_VALUES // 2 - 1) + "0]"
        assert_cheap([(unit, lambda text=text: parse_bounded_json(text))])  # type: ignore[misc]
