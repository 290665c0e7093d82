"""Calls as JSON: what is malformed, which errors have which type, and that a list ends at its first error."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.environments.stateful.tools import (
    Argument,
    Done,
    Refusal,
    Tool,
    call_tool,
    compact_json,
    parse_calls,
    run_calls,
)
from components.errors import MalformedAction


def count(state: int, given: Mapping[str, Any]) -> Done[int]:
    if given["by"] > 50:
        raise Refusal(type="conflict", message="too far")
    return Done(state=state + given["by"], value={"now": state + given["by"]})


TOOLS: dict[str, Tool[int]] = {
    "count": Tool(
        name="count",
        summary="adds",
        act=count,
        arguments={"by": Argument(kind="integer"), "why": Argument(kind="text", required=False)},
    ),
    "name": Tool(
        name="name", summary="names", act=lambda state, _: Done(state=state), arguments={"them": Argument(kind="texts")}
    ),
}


@pytest.mark.parametrize(
    ("call", "error_type"),
    [
        ({"tool": "cuont", "by": 1}, "unknown_tool"),
        ({"tool": ""}, "unknown_tool"),
        ({"tool": "count"}, "missing_argument"),
        ({"tool": "count", "by": 1, "twice": True}, "unknown_argument"),
        ({"tool": "count", "by": "1"}, "bad_type"),
        ({"tool": "count", "by": 1.0}, "bad_type"),
        ({"tool": "count", "by": True}, "bad_type"),
        ({"tool": "count", "by": None}, "bad_type"),
        ({"tool": "count", "by": [1]}, "bad_type"),
        ({"tool": "count", "by": 0}, "bad_value"),
        ({"tool": "count", "by": 10**30}, "bad_value"),
        ({"tool": "count", "by": 1, "why": 3}, "bad_type"),
        ({"tool": "count", "by": 1, "why": ""}, "bad_value"),
        ({"tool": "count", "by": 1, "why": "x" * 41}, "bad_value"),
        ({"tool": "count", "by": 51}, "conflict"),
        ({"tool": "name", "them": "ann"}, "bad_type"),
        ({"tool": "name", "them": ["ann", 1]}, "bad_type"),
        ({"tool": "name", "them": []}, "bad_value"),
        ({"tool": "name", "them": [""]}, "bad_value"),
        ({"tool": "name", "them": ["a"] * 9}, "bad_value"),
    ],
)
def test_a_wrong_call_is_refused_with_a_type(call: dict[str, Any], error_type: str) -> None:
    refusal = call_tool(TOOLS, 3, call)
    assert isinstance(refusal, Refusal)
    assert refusal.type == error_type
    assert json.loads(refusal.answer) == {"error": {"type": error_type, "message": refusal.message}}
    assert refusal.answer.isascii()


def test_a_right_call_gives_the_next_state_and_a_value() -> None:
    done = call_tool(TOOLS, 3, {"tool": "count", "by": 2, "why": "more"})
    assert done == Done(state=5, value={"now": 5})
    assert done.answer == '{"now":5}'


def test_a_list_ends_at_its_first_error_and_keeps_what_came_before() -> None:
    calls = [{"tool": "count", "by": by} for by in (1, 2, 99, 51, 4)]
    run = run_calls(TOOLS, 0, calls)
    assert run.state == 3
    assert run.answers[:2] == ('{"now":1}', '{"now":3}')
    assert len(run.answers) == 3
    assert run.refusal == Refusal(type="conflict", message="too far")
    assert run_calls(TOOLS, 0, calls[:2]).refusal is None
    assert run_calls(TOOLS, 7, []).state == 7


@pytest.mark.parametrize(
    "text",
    [
        '[{"tool":"a","x":1}]',
        ' {"tool": "a", "x": 1} ',
        '```json\n[{"tool": "a",\n  "x": 1}]\n```',
        '\n[{"x":1,"tool":"a"}]',
    ],
)
def test_a_list_one_object_and_a_fenced_block_are_understood(text: str) -> None:
    assert parse_calls(text, max_calls=1, max_characters=20) == [{"tool": "a", "x": 1}]


def test_an_empty_list_is_no_call() -> None:
    assert parse_calls("[]", max_calls=1, max_characters=20) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not JSON"),
        ("pay", "is not JSON"),
        ("[{'tool': 'a'}]", "is not JSON"),
        ('[{"tool":"a"}] [1]', "is not JSON"),
        ('[{"tool":"a","x":NaN}]', "NaN is no number"),
        ('[{"tool":"a","tool":"b"}]', "name one twice"),
        ('[{"tool":"a"},{"tool":"b"},{"tool":"c"}]', "3 calls; at most 2"),
        ('["a"]', "not a list of objects with a tool"),
        ('[{"name":"a"}]', "not a list of objects with a tool"),
        ("3", "not a list of objects with a tool"),
        ("[[[[1]]]]", "nested deeper than 3"),
        ("[" * 150, "nested deeper than 3"),
        (" " * 161, "161 characters; at most 160"),
    ],
)
def test_anything_else_is_malformed(text: str, message: str) -> None:
    with pytest.raises(MalformedAction, match=message):
        parse_calls(text, max_calls=2, max_characters=40)


def test_brackets_inside_texts_are_not_depth() -> None:
    calls = [{"tool": "a", "text": '[[[[{{"\\'}]
    assert parse_calls(compact_json(calls), max_calls=1, max_characters=40) == calls


def test_a_signature_names_arguments_and_marks_the_optional() -> None:
    assert TOOLS["count"].signature == "count(by: an integer 1..99, why?: text): adds"
    assert TOOLS["name"].signature == "name(them: a list of texts): names"
