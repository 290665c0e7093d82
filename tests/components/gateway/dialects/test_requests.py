"""What is asked in three dialects is read alike: from the SDKs themselves, and from any conversation."""

import gc
import json
import time
from contextlib import suppress
from typing import Any

import anthropic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.gateway.base import AgentRequest, AgentToolCall, Message, RequestRefused, Tool
from components.gateway.dialects.fields import KnownItems
from components.gateway.dialects.table import CHAT, DIALECTS, MESSAGES, RESPONSES
from tests.components.gateway.dialects.wire import BODIES, CALLS, SCHEMA, SESSION, Gateway, say

RESULTS = {"call_a": "one", "call_b": "two"}
TOOL = {"description": "Read a file", "parameters": SCHEMA}


def play_chat(gateway: Gateway, stream: bool) -> str | None:
    tools = [{"type": "function", "function": {"name": "read", **TOOL}}]
    asked: Any = {"model": "coder", "tools": tools, "temperature": 0.5, "max_completion_tokens": 64}
    messages: list[Any] = [{"role": "developer", "content": "Be careful."}, {"role": "user", "content": "Read both."}]
    while True:
        if stream:
            with gateway.openai.chat.completions.stream(messages=messages, **asked) as events:
                said: Any = events.get_final_completion().choices[0].message
        else:
            said = gateway.openai.chat.completions.create(messages=messages, **asked).choices[0].message
        if not said.tool_calls:
            return str(said.content)
        results = [{"role": "tool", "tool_call_id": call.id, "content": RESULTS[call.id]} for call in said.tool_calls]
        messages += [said, *results]


def play_responses(gateway: Gateway, stream: bool) -> str | None:
    tools = [{"type": "function", "name": "read", **TOOL}]
    asked: Any = {
        "model": "coder",
        "instructions": "Be careful.",
        "tools": tools,
        "temperature": 0.5,
        "max_output_tokens": 64,
    }
    items: list[Any] = [{"role": "user", "content": "Read both."}]
    while True:
        if stream:
            with gateway.openai.responses.stream(input=items, **asked) as events:
                said: Any = events.get_final_response()
        else:
            said = gateway.openai.responses.create(input=items, **asked)
        calls = [item for item in said.output if item.type == "function_call"]
        if not calls:
            return str(said.output_text)
        results = [
            {"type": "function_call_output", "call_id": each.call_id, "output": RESULTS[each.call_id]} for each in calls
        ]
        items += [*said.output, *results]


def play_messages(gateway: Gateway, stream: bool) -> str | None:
    tools = [{"name": "read", "description": "Read a file", "input_schema": SCHEMA}]
    asked: Any = {"model": "coder", "system": "Be careful.", "tools": tools, "max_tokens": 64}
    asked["extra_body"] = {"temperature": 0.5}
    messages: list[Any] = [{"role": "user", "content": "Read both."}]
    while True:
        if stream:
            with gateway.anthropic.messages.stream(messages=messages, **asked) as events:
                said: Any = events.get_final_message()
        else:
            said = gateway.anthropic.messages.create(messages=messages, **asked)
        uses = [block for block in said.content if block.type == "tool_use"]
        if not uses:
            return str(said.content[0].text)
        results = [{"type": "tool_result", "tool_use_id": use.id, "content": RESULTS[use.id]} for use in uses]
        messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("play", [play_chat, play_responses, play_messages])
def test_agents_on_the_sdks_ask_the_same_in_all_dialects(play: Any, stream: bool) -> None:
    gateway = Gateway(say("Let me see.", *CALLS), say("Done."))
    assert play(gateway, stream) == "Done."
    for request, messages in zip(gateway.requests, (SESSION[:2], SESSION), strict=True):
        assert request == AgentRequest(
            model="coder",
            messages=messages,
            tools=(Tool(name="read", description="Read a file", parameters=SCHEMA),),
            temperature=0.5,
            max_tokens=64,
            wants_stream=stream,
        )


def test_the_tool_runner_sends_its_whole_history_after_its_thread_is_refused() -> None:
    @anthropic.beta_tool
    def read(path: str) -> str:
        """Read a file.

        Args:
            path: its name
        """
        return {"a": "one", "ü": "two"}[path]

    gateway = Gateway(say("Let me see.", *CALLS), say("Done."))
    asked: Any = {"model": "coder", "max_tokens": 64, "messages": [{"role": "user", "content": "Read both."}]}
    said = gateway.anthropic.beta.messages.tool_runner(tools=[read], **asked).until_done()
    assert said.content[0].text == "Done."  # type: ignore[union-attr]
    assert [refused.field for refused in gateway.refused] == ["thread"]
    assert gateway.requests[-1].messages == SESSION[1:]


TEXTS = st.text(max_size=12) | st.sampled_from(["a\nb", "\n", "\0", "<|im_start|>system", "\u2028é🙂"])
NAMES = st.text(min_size=1, max_size=6)
ARGUMENTS = st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS | st.lists(st.booleans(), max_size=2), max_size=2)


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Message, ...]:
    """A system's message or none, then turns: a user's or a late system's, or an answer with what its calls gave."""
    system = draw(st.lists(st.text(min_size=1, max_size=9), max_size=1))
    messages = [Message(role="system", text=text) for text in system]
    messages.append(Message(role="user", text=draw(TEXTS)))
    for _ in range(draw(st.integers(0, 4))):
        written = [json.dumps(each, ensure_ascii=False) for each in draw(st.lists(ARGUMENTS, max_size=3))]
        calls = tuple(AgentToolCall(call_id=draw(NAMES), name=draw(NAMES), arguments=each) for each in written)
        messages.append(Message(role="assistant", text=draw(TEXTS if calls else TEXTS.filter(bool)), calls=calls))
        messages += [Message(role="tool", text=draw(TEXTS), answers=call.call_id) for call in calls]
        if not calls or draw(st.booleans()):
            messages.append(Message(role=draw(st.sampled_from(["user", "user", "system"])), text=draw(TEXTS)))
    return tuple(messages)


KNOWN = {path: KnownItems() for path in DIALECTS}
"""Of the example before."""


@settings(max_examples=30, deadline=None)
@given(conversations(), st.booleans())
def test_any_conversation_is_read_alike_in_all_dialects(messages: tuple[Message, ...], as_parts: bool) -> None:
    for path, dialect in DIALECTS.items():
        body = BODIES[path](messages, as_parts)
        assert dialect.read(body, KnownItems()).messages == messages
        source = "input" if path == RESPONSES.path else "messages"
        for length in range(1, len(body[source]) + 1):
            with suppress(RequestRefused):  # one that ends with an answer
                last = dialect.read({**body, source: body[source][:length]}, KNOWN[path])
        assert last.messages == messages


def test_what_python_calls_equal_is_not_known_again() -> None:
    def body(value: object, *more: Any) -> dict[str, Any]:
        use = {"type": "tool_use", "id": "1", "name": "f", "input": {"x": value}}
        result = {"type": "tool_result", "tool_use_id": "1", "content": "r"}
        said = [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}, *more]
        return {"model": "m", "max_tokens": 1, "messages": said}

    known = KnownItems()
    for value in (1, True, 1.0, 1):
        asked = MESSAGES.read(body(value, {"role": "user", "content": "go on"}), known)
        assert asked.messages[0].calls[0].arguments == json.dumps({"x": value})


CHOICES: dict[str, list[Any]] = {
    "auto": [None, "auto", {"type": "auto"}],
    "none": ["none", {"type": "none"}],
    "required": ["required", {"type": "any"}],
    "read": [
        {"type": "function", "function": {"name": "read"}},
        {"type": "function", "name": "read"},
        {"type": "tool", "name": "read"},
    ],
}


@pytest.mark.parametrize("path", DIALECTS)
def test_wishes_for_sampling_are_read_in_every_spelling(path: str) -> None:
    tool = {
        "type": "function",
        "name": "read",
        "function": {"name": "read", "parameters": SCHEMA},
        "parameters": SCHEMA,
    }
    tools = [{"name": "read", "input_schema": SCHEMA}] if path == MESSAGES.path else [tool]
    body = BODIES[path](SESSION[:2], False) | {
        "tools": tools,
        "seed": -1,
        "top_p": 0.5,
        "temperature": 0,
        "max_tokens": 5,
    }
    stop = "stop_sequences" if path == MESSAGES.path else "stop"
    limit = {CHAT.path: "max_completion_tokens", RESPONSES.path: "max_output_tokens"}.get(path, "max_tokens")
    read = DIALECTS[path].read
    for expected, choices in CHOICES.items():
        for choice in choices:
            request = read(body | {"tool_choice": choice, stop: ["a", "b"], limit: 7, "stream": True}, KnownItems())
            named = ("required", "read") if expected == "read" else (expected, "")
            assert (request.tool_choice, request.required_tool) == named
            assert (request.seed, request.top_p, request.temperature, request.max_tokens) == (-1, 0.5, 0.0, 7)
            assert (request.stop, request.wants_stream) == (("a", "b"), True)
    assert read(body | {stop: "a"}, KnownItems()).stop == ("a",)


def test_what_is_not_read_is_counted() -> None:
    """Of three real clients: what they send beside messages and tools."""
    function = {"type": "function", "name": "read", "parameters": SCHEMA}
    codex = BODIES[RESPONSES.path](SESSION[:2], False)
    codex |= {
        "parallel_tool_calls": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
    }
    codex |= {"client_metadata": {"a": "b"}, "reasoning": {"summary": "auto"}}
    space = {"type": "namespace", "name": "team", "description": "Others", "tools": [function]}
    codex["tools"] = [function | {"name": "exec"}, {"type": "web_search"}, space]
    codex["input"][-1] |= {"name": "bob", "status": "completed"}
    codex["input"] += [
        {"type": "reasoning", "encrypted_content": "e", "summary": []},
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "+ü"},
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "d", "name": "exec", "arguments": "{}"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": [{"type": "input_text", "text": "ok"}]},
    ]
    request = RESPONSES.read(codex, KnownItems())
    assert (
        request.num_unread_fields == 6
    )  # reasoning, web_search, a namespace's description, a name, two reasoning items
    assert [(tool.name, tool.namespace) for tool in request.tools] == [("exec", ""), ("read", "team")]
    called = AgentToolCall(call_id="c", name="patch", arguments='{"input": "+ü"}')
    said = Message(role="assistant", text="", calls=(called, AgentToolCall(call_id="d", name="exec", arguments="{}")))
    assert request.messages[2:] == (said, Message(role="tool", text="ok", answers="c"))

    claude = BODIES[MESSAGES.path](SESSION, False)
    claude |= {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high", "format": {"type": "json_schema"}}}
    claude |= {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}, "metadata": {"user_id": "u"}}
    claude["tools"] = [
        {"type": "bash_20250124", "name": "bash"},
        {"name": "read", "input_schema": {}, "cache_control": {}},
    ]
    failed = {"type": "tool_result", "tool_use_id": "t", "is_error": True, "content": "no file"}
    claude["messages"][-1]["id"] = "m"
    claude["messages"][-1]["content"] = [{"type": "text", "text": "Before"}, failed, {"type": "text", "text": "After"}]
    request = MESSAGES.read(claude, KnownItems())
    assert request.num_unread_fields == 5  # thinking, output_config, bash, the id of a message and a block of thinking
    assert [tool.name for tool in request.tools] == ["read"]
    assert [message.text for message in request.messages[-3:]] == ["Before", "Error: no file", "After"]

    pi = BODIES[CHAT.path](SESSION, False)
    pi |= {
        "store": False,
        "stream_options": {"include_usage": True},
        "n": 1,
        "response_format": {"type": "json_schema"},
    }
    pi["messages"].append({"role": "assistant", "content": None, "refusal": "No."})
    pi["messages"][2] |= {"refusal": None, "annotations": [], "reasoning_content": "hm"}
    request = CHAT.read(pi, KnownItems())
    assert request.num_unread_fields == 2  # response_format and reasoning_content
    assert request.wants_stream_usage
    assert request.messages[-1].text == "No."


@pytest.mark.parametrize("path", DIALECTS)
def test_long_conversations_take_linear_time(path: str) -> None:
    def measure_seconds(num_calls: int) -> float:
        calls = tuple(AgentToolCall(call_id=str(k), name="f", arguments="{}") for k in range(num_calls))
        results = [Message(role="tool", text="r", answers=call.call_id) for call in calls]
        body = BODIES[path]([SESSION[1], Message(role="assistant", text="", calls=calls), *results], False)
        gc.disable()  # it looks at all objects again and again
        started = time.process_time()
        assert len(DIALECTS[path].read(body, KnownItems()).messages) == num_calls + 2
        seconds = time.process_time() - started
        gc.enable()
        return seconds

    assert measure_seconds(16_000) < 16 * min(measure_seconds(2_000) for _ in range(2))
