"""YAML of configurations: JSON's values, each key once, and what is wrong by its place."""

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from components.text.plain_yaml import read_yaml, write_yaml_line


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2026-02-30", "2026-02-30"),
        ("2026-11-28 25:00:00", "2026-11-28 25:00:00"),
        ("1:30", "1:30"),
        ("010", "010"),
        ("0x_", "0x_"),
        ("0x1F", 31),
        ("1_000", 1000),
        ("-0", 0),
        ("9" * 5000, "9" * 5000),
        ("1e-5", 1e-5),
        ("+1E5", 1e5),
        ("-.5", -0.5),
        ("5.", 5.0),
        ("1e", "1e"),
        ("e5", "e5"),
        ("-.inf", float("-inf")),
        ("=", "="),
        ("!!float 3", 3.0),
        ("!!str 3", "3"),
        ("{a: off, b: ~, c: '1e-5'}", {"a": False, "b": None, "c": "1e-5"}),
        ("x: &b {a: 1}\ny: {<<: *b, a: 2}", {"x": {"a": 1}, "y": {"a": 2}}),
        ("x: {<<: &b {<<: {a: 1}, a: 2}}\nc: *b", {"x": {"a": 2}, "c": {"a": 2}}),
        ("- &x [1]\n- *x", [[1], [1]]),
        ("", None),
    ],
)
def test_values_are_those_of_json_with_the_numbers_of_yaml_1_2(text: str, value: Any) -> None:
    found = read_yaml(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "problem", "place"),
    [
        ("a: 1\nb: {c: 1}\na: 2", "'a' stands here and in line 1", (3, 1)),
        ("b:\n  - {c: 1, 'c': 2}", "'c' stands here and in line 2", (2, 12)),
        ("{{ name }}", "put a value in double braces in quotes", (1, 2)),
        ("!!int foo", "'foo' is no int", (1, 1)),
        ("[!!bool x]", "'x' is no bool", (1, 2)),
        ("!!null x", "'x' is no null", (1, 1)),
        ("!!timestamp x", "'timestamp' is no kind of value", (1, 1)),
        ("!!set {a}", "'set' is no kind of value", (1, 1)),
        ("!mine {a: 1}", "'!mine' is no kind of value", (1, 1)),
        ("&a [*a]", "recursive", (1, 1)),
        ('a: ["\\ud800"]', "holds half a character", (1, 5)),
        ("a: [1", "expected ',' or ']'", (1, 6)),
        ("a\n---\nb", "another document", (2, 1)),
    ],
)
def test_what_is_wrong_is_told_by_its_place(text: str, problem: str, place: tuple[int, int]) -> None:
    with pytest.raises(yaml.MarkedYAMLError) as refused:
        read_yaml(text)
    assert problem in str(refused.value.problem)
    mark = refused.value.problem_mark
    assert mark is not None
    assert (mark.line + 1, mark.column + 1) == place


@pytest.mark.parametrize("text", ["[" * 3000, "\udcff", "\x00"])
def test_what_no_parser_can_place_is_refused_too(text: str) -> None:
    with pytest.raises(yaml.YAMLError):
        read_yaml(text)


_NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
_LOOKS_LIKE = st.sampled_from(
    ["1e5", "010", "1:30", "2026-02-30", "no", "~", "0x1f", ".5", "1_0", "<<", "=", "", "a: b", "\n"]
)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _LOOKS_LIKE | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")) | _LOOKS_LIKE, inner),
)


@given(_VALUES)
def test_a_value_in_one_line_is_read_as_the_same(value: Any) -> None:
    line = write_yaml_line(value)
    assert "\n" not in line
    assert read_yaml(line) == value
