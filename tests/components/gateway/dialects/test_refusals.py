"""What is refused is refused by name, in one line; nothing that JSON can say ends in another error."""

import copy
import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from components.gateway.base import AgentRequest, RequestRefused
from components.gateway.dialects.fields import KnownItems
from components.gateway.dialects.table import CHAT, DIALECTS, MESSAGES, RESPONSES, Dialect
from components.gateway.dialects.wire import write_json
from tests.components.gateway.dialects.wire import BODIES, SCHEMA, SESSION, say

FUNCTION = {"name": "read", "description": "Read", "parameters": SCHEMA}
BASES: dict[str, dict[str, Any]] = {
    path: BODIES[path](SESSION, True)
    | {"temperature": 1, "top_p": 0.5, "seed": 1, "stream": True, "tool_choice": choice, "tools": tools, **more}
    for path, choice, tools, more in [
        (
            CHAT.path,
            {"type": "function", "function": {"name": "read"}},
            [{"type": "function", "function": FUNCTION}],
            {"max_tokens": 5, "logprobs": True, "stop": ["a"], "stream_options": {"include_usage": True}},
        ),
        (
            RESPONSES.path,
            {"type": "function", "name": "read"},
            [{"type": "namespace", "name": "team", "tools": [{"type": "function", **FUNCTION}]}],
            {"max_output_tokens": 5, "instructions": "Be", "include": ["message.output_text.logprobs"]},
        ),
        (
            MESSAGES.path,
            {"type": "tool", "name": "read"},
            [{"name": "read", "description": "Read", "input_schema": SCHEMA}],
            {"context_management": {"edits": [{"type": "clear_thinking_1"}]}, "stop_sequences": ["a"]},
        ),
    ]
}
IMAGE = [{"type": "image_url", "image_url": {"url": "data:"}}]
ONE: dict[str, Any] = {"type": "function", "function": FUNCTION}
REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    *((path, {"n": 2}, "n", "one request for each answer") for path in DIALECTS),
    *((path, {"logit_bias": {"5": 1}}, "logit_bias", "leave it out") for path in DIALECTS),
    *((path, {"temperature": value}, "temperature", "from 0 to 2") for path in DIALECTS for value in (-0.1, 2.1, True, "1")),
    *((path, {"model": ""}, "model", "send a string") for path in DIALECTS),
    *((path, {"top_p": 0}, "top_p", "from 1e-06 to 1") for path in DIALECTS),
    *((path, {"seed": 2**63}, "seed", "integer") for path in DIALECTS),
    *((path, {"metadata": {"a": float("nan")}}, "metadata", "UTF-8") for path in DIALECTS),
    *((path, {"user": "\udc00"}, "user", "UTF-8") for path in DIALECTS),
    *((path, {"user": 10**5000}, "user", "UTF-8") for path in DIALECTS),
    *((path, {"tool_choice": {"type": "function", "name": "write"}}, "tool_choice", "not declared") for path in DIALECTS),
    *((path, {"tool_choice": "required", "tools": []}, "tool_choice", "declare one") for path in DIALECTS),
    *((CHAT.path, {"messages": messages}, field, remedy) for messages, field, remedy in [
        ({}, "messages", "is no list"),
        ([{"role": "assistant", "audio": {"id": "a"}}], "messages.0.audio", "as content"),
        ([{"role": "assistant", "tool_calls": [{"type": "custom"}]}], "messages.0.tool_calls.0.type", "function calls only"),
        ([], "messages", "at least one"),
        (["Go"], "messages.0", "no object"),
        ([{"role": "robot", "content": "Go"}], "messages.0.role", "system, developer, user"),
        ([{"role": "user", "content": IMAGE}], "messages.0.content.0.type", "text parts only"),
        ([{"role": "user"}], "messages.0.content", "send a text"),
        ([{"role": "tool", "content": "r"}], "messages.0.tool_call_id", "not empty"),
        ([{"role": "assistant", "function_call": {"name": "f"}}], "messages.0.function_call", "send tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"id": "c"}]}], "messages.0.tool_calls.0.function.name", "not empty"),
    ]),
    (CHAT.path, {"functions": [FUNCTION]}, "functions", "send tools"),
    (CHAT.path, {"function_call": "auto"}, "function_call", "send tool_choice"),
    (CHAT.path, {"modalities": ["text", "audio"]}, "modalities", "answers are text"),
    (CHAT.path, {"input": "Go"}, "input", "another API"),
    (CHAT.path, {"max_tokens": True}, "max_tokens", "from 1 to"),
    (CHAT.path, {"max_tokens": 0}, "max_tokens", "from 1 to"),
    (CHAT.path, {"stop": [""]}, "stop", "not empty"),
    (CHAT.path, {"tools": [ONE, ONE]}, "tools", "'read' twice"),
    (RESPONSES.path, {"previous_response_id": "r"}, "previous_response_id", "send the whole input"),
    (RESPONSES.path, {"conversation": {"id": "c"}}, "conversation", "send the whole input"),
    (RESPONSES.path, {"background": True}, "background", "wait"),
    (RESPONSES.path, {"prompt": {"id": "p"}}, "prompt", "as instructions"),
    (RESPONSES.path, {"context_management": [{"type": "compaction"}]}, "context_management", "leave it out"),
    (RESPONSES.path, {"input": None, "instructions": None}, "input", "at least one"),
    *((RESPONSES.path, {"input": [item]}, f"input.0.{field}", remedy) for item, field, remedy in [
        ({"type": "item_reference", "id": "i"}, "type", "whole"),
        ({"type": "function_call_output", "output": "r"}, "call_id", "not empty"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "name", "not empty"),
    ]),
    (MESSAGES.path, {"thread": {"type": "create"}}, "thread", "send all messages"),
    *((MESSAGES.path, {field: {"type": "t"}}, field, "leave it out") for field in ("container", "compaction", "audio")),
    (MESSAGES.path, {"web_search_options": {"a": 1}}, "web_search_options", "declare its tool"),
    (MESSAGES.path, {"mcp_servers": [{"url": "u"}]}, "mcp_servers", "declare their tools"),
    (MESSAGES.path, {"context_management": {"edits": [{"type": "clear"}]}}, "context_management.edits.0.type", "leave it out"),
    *((MESSAGES.path, {"messages": [message]}, field, remedy) for message, field, remedy in [
        ({"role": "developer", "content": "Go"}, "messages.0.role", "system, user, assistant"),
        ({"role": "assistant", "content": "The"}, "messages.0.role", "not continued"),
        ({"role": "user", "content": [{"type": "document"}]}, "messages.0.content.0.type", "text parts only"),
        ({"role": "user", "content": [{"type": "tool_result"}]}, "messages.0.content.0.tool_use_id", "not empty"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "change", "field", "remedy"), REFUSED)
def test_what_is_refused_is_named_with_its_value_and_a_remedy(
    path: str, change: dict[str, Any], field: str, remedy: str
) -> None:
    with pytest.raises(RequestRefused, match=remedy) as caught:
        DIALECTS[path].read(BASES[path] | change, KnownItems())
    assert (caught.value.field, caught.value.status) == (field, 400)
    assert str(caught.value).startswith(field + " ")


@pytest.mark.parametrize("path", DIALECTS)
def test_long_values_are_cut_and_deep_ones_are_not_entered(path: str) -> None:
    with pytest.raises(RequestRefused) as caught:
        DIALECTS[path].read(BASES[path] | {"n": "x" * 10_000}, KnownItems())
    assert len(str(caught.value)) < 160
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RequestRefused, match="nested deeper than 100"):
        DIALECTS[path].read(BASES[path] | {"user": deep}, KnownItems())
    while deep:  # its own destructor would overflow the stack of some interpreters
        deep = deep.pop()


STRANGE: list[Any] = [
    None,
    True,
    7,
    -1.5,
    float("inf"),
    10**5000,
    "",
    "x\0\n",
    "\ud800",
    [],
    {},
    [[]],
    [7],
    {"type": 7},
    {"a": None},
]


def list_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from list_places(each, (*path, key))


def read_or_refuse(dialect: Dialect, body: Any, known: KnownItems) -> AgentRequest | RequestRefused:
    try:
        return dialect.read(body, known)
    except RequestRefused as refused:
        return refused


@pytest.mark.parametrize("path", DIALECTS)
def test_any_value_in_any_place_is_read_or_refused(path: str) -> None:
    dialect, base, num_read = DIALECTS[path], BASES[path], 0
    known = KnownItems()
    assert isinstance(dialect.read(base, known), AgentRequest)
    assert all(isinstance(read_or_refuse(dialect, body, known), RequestRefused) for body in STRANGE)
    for place in [*list_places(base), ("unknown",)]:
        body = copy.deepcopy(base)
        target: Any = body
        for key in place[:-1]:
            target = target[key]
        for strange in STRANGE:
            target[place[-1]] = strange
            asked, anew = (read_or_refuse(dialect, body, each) for each in (known, KnownItems()))
            assert (str(asked), repr(asked)) == (str(anew), repr(anew))
            if isinstance(asked, RequestRefused):
                assert "\n" not in str(asked)
                assert asked.field
                assert write_json(dialect.write_refusal(asked))
            else:
                num_read += 1
                json.dumps(asdict(asked), ensure_ascii=False, allow_nan=False).encode()
                assert write_json(dialect.write(asked, say("ok")))
                assert b"".join(dialect.stream(asked, say("ok")))
    assert num_read > 50
