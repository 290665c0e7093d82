"""Answers, refusals and lists are what both SDKs read strictly, and a stream says what a body says."""

import json
import re
from collections.abc import Callable
from typing import Any

import anthropic
import anthropic.types
import openai
import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, RequestRefused, Tool
from components.gateway.dialects.table import CHAT, DIALECTS, MESSAGES, RESPONSES
from components.gateway.dialects.wire import write_json, write_models
from tests.components.gateway.dialects.wire import ANSWERED, SCHEMA, Gateway, say

CALLS = (AgentToolCall(call_id="call_a", name="read", arguments='{"path": "ü\\u2028"}'),)
CALLS += (AgentToolCall(call_id="call_b", name="spawn", arguments="{}"),)
LOGPROBS = (("two", -0.25), (" lines ", -1.5), ("é", 0.0))
ANSWERS = {
    "text": say("two\u2028 lines\r\n\u0085é 🙂", token_logprobs=LOGPROBS),
    "calls": say("", *CALLS),
    "text and calls": say("Let me see.", *CALLS, token_logprobs=LOGPROBS),
    "cut": say("unfinish", finish="length"),
    "nothing": say(""),
    "nothing, cut": say("", finish="length"),
}
ASKED = {"model": "coder", "messages": (Message(role="user", text="Go"),), "wants_logprobs": True}
TOOLS = tuple(
    Tool(name=name, description="", parameters=SCHEMA, namespace=space)
    for name, space in [("read", ""), ("spawn", "team")]
)
REQUEST = AgentRequest(**ASKED, tools=TOOLS, wants_stream_usage=True)
TYPES: dict[str, list[TypeAdapter[Any]]] = {
    CHAT.path: [TypeAdapter(each) for each in (ChatCompletion, ChatCompletionChunk)],
    RESPONSES.path: [TypeAdapter(each) for each in (Response, ResponseStreamEvent)],
    MESSAGES.path: [TypeAdapter(each) for each in (anthropic.types.Message, anthropic.types.RawMessageStreamEvent)],
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("path", DIALECTS)
def test_bodies_and_events_are_of_the_sdks_types(path: str, answer: AgentAnswer) -> None:
    dialect, (body_type, event_type) = DIALECTS[path], TYPES[path]
    body = json.loads(write_json(dialect.write(REQUEST, answer)))
    parsed = body_type.validate_python(body, strict=True)
    assert parsed.model == "coder"
    assert ANSWERED["created"] in (
        body.get("created"),
        body.get("created_at"),
        ANSWERED["created"] * (path == MESSAGES.path),
    )
    chunks = list(dialect.stream(REQUEST, answer))
    assert chunks == list(dialect.stream(REQUEST, answer))
    for chunk in chunks[: -1 if path == CHAT.path else None]:
        name, data = re.fullmatch(rb"(?:event: (\S+)\n)?data: ([ -~]+)\n\n", chunk).groups()  # type: ignore[union-attr]
        event = json.loads(data)
        event_type.validate_python(event, strict=True)
        assert name is None if path == CHAT.path else event["type"] == name.decode()
    assert chunks[-1].startswith(
        {CHAT.path: b"data: [DONE]", RESPONSES.path: b"event: response.completed"}.get(path, b"event: message_stop")
    )


def ask_chat(gateway: Gateway, stream: bool) -> Any:
    asked: Any = {"model": "coder", "messages": [{"role": "user", "content": "Go"}], "logprobs": True}
    if not stream:
        return gateway.openai.chat.completions.create(**asked)
    with gateway.openai.chat.completions.stream(**asked, stream_options={"include_usage": True}) as events:
        return events.until_done().current_completion_snapshot  # the final one is an error for an answer that was cut


def ask_responses(gateway: Gateway, stream: bool) -> Any:
    tools = [
        {"type": "namespace", "name": "team", "tools": [{"type": "function", "name": "spawn", "parameters": SCHEMA}]}
    ]
    asked: Any = {"model": "coder", "input": "Go", "tools": tools, "include": ["message.output_text.logprobs"]}
    if not stream:
        return gateway.openai.responses.create(**asked)
    with gateway.openai.responses.stream(**asked) as events:
        return events.get_final_response()


def ask_messages(gateway: Gateway, stream: bool) -> Any:
    asked: Any = {"model": "coder", "max_tokens": 9, "messages": [{"role": "user", "content": "Go"}]}
    if not stream:
        return gateway.anthropic.messages.create(**asked)
    with gateway.anthropic.messages.stream(**asked) as events:
        return events.get_final_message()


Ask = Callable[[Gateway, bool], Any]
ASKS: dict[str, Ask] = {CHAT.path: ask_chat, RESPONSES.path: ask_responses, MESSAGES.path: ask_messages}


def read_by_sdk(path: str, said: Any) -> dict[str, Any]:
    """What an agent sees of an answer."""
    if path == CHAT.path:
        choice = said.choices[0]
        calls = [(call.id, call.function.name, call.function.arguments) for call in choice.message.tool_calls or []]
        logprobs = [(each.token, each.logprob) for each in choice.logprobs.content]
        seen = {"text": choice.message.content or "", "finish": choice.finish_reason, "logprobs": logprobs}
        return seen | {"calls": calls, "tokens": (said.usage.prompt_tokens, said.usage.completion_tokens)}
    if path == RESPONSES.path:
        calls = [(item.call_id, item.name, item.arguments) for item in said.output if item.type == "function_call"]
        spaces = [item.namespace for item in said.output if item.type == "function_call"]
        parts = [part for item in said.output if item.type == "message" for part in item.content]
        logprobs = [(each.token, each.logprob) for part in parts for each in part.logprobs]
        seen = {"text": said.output_text, "finish": said.status, "logprobs": logprobs, "spaces": spaces}
        return seen | {"calls": calls, "tokens": (said.usage.input_tokens, said.usage.output_tokens)}
    calls = [(block.id, block.name, json.dumps(block.input)) for block in said.content if block.type == "tool_use"]
    text = "".join(block.text for block in said.content if block.type == "text")
    return {
        "text": text,
        "finish": said.stop_reason,
        "calls": calls,
        "tokens": (said.usage.input_tokens, said.usage.output_tokens),
    }


FINISHES = {
    CHAT.path: {"stop": "stop", "length": "length", "tool_calls": "tool_calls"},
    RESPONSES.path: {"stop": "completed", "length": "incomplete", "tool_calls": "completed"},
    MESSAGES.path: {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"},
}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", DIALECTS)
def test_clients_see_the_answer_after_keep_alives(path: str, stream: bool, answer: AgentAnswer) -> None:
    seen = read_by_sdk(path, ASKS[path](Gateway(answer), stream))
    assert seen["text"] == (answer.text or ("" if answer.calls else " "))
    texts = [
        call.arguments if path != MESSAGES.path else json.dumps(json.loads(call.arguments)) for call in answer.calls
    ]
    assert seen["calls"] == [(call.call_id, call.name, text) for call, text in zip(answer.calls, texts, strict=True)]
    assert seen["finish"] == FINISHES[path][answer.finish]
    assert seen["tokens"] == (11, 7)
    if path == CHAT.path or (path == RESPONSES.path and seen["text"]):
        assert seen["logprobs"] == list(answer.token_logprobs)
    assert seen.get("spaces", []) == ([None, "team"] if path == RESPONSES.path and answer.calls else [])


STATUSES: list[tuple[int, str, str]] = [
    (400, "BadRequestError", "invalid_request_error"),
    (401, "AuthenticationError", "authentication_error"),
    (403, "PermissionDeniedError", "permission_error"),
    (404, "NotFoundError", "not_found_error"),
    (413, "APIStatusError", "request_too_large"),
    (429, "RateLimitError", "rate_limit_error"),
    (500, "InternalServerError", "api_error"),
    (504, "InternalServerError", "timeout_error"),
    (529, "InternalServerError", "overloaded_error"),
]


@pytest.mark.parametrize(("status", "raised", "kind"), STATUSES)
@pytest.mark.parametrize("path", DIALECTS)
def test_refusals_are_the_sdks_errors(path: str, status: int, raised: str, kind: str) -> None:
    refused = RequestRefused("model 'x' is unknown; send coder", status=status, field="model", code="model_not_found")
    sdk: Any = anthropic if path == MESSAGES.path else openai
    with pytest.raises(getattr(sdk, raised), match="is unknown; send coder") as caught:
        ASKS[path](Gateway(refused), False)
    if path == MESSAGES.path:
        assert caught.value.body == {"type": "error", "error": {"type": kind, "message": str(refused)}}
    else:
        group = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
        assert (caught.value.param, caught.value.code, caught.value.type) == ("model", "model_not_found", group)
    with pytest.raises(sdk.APIError, match="is unknown; send coder"):
        ASKS[path](Gateway(refused), True)


def test_models_and_token_counts_are_read_by_both_sdks() -> None:
    gateway = Gateway(say(""))
    assert [model.id for model in gateway.openai.models.list()] == ["coder", "planner"]
    assert [model.id for model in gateway.anthropic.models.list()] == ["coder", "planner"]
    for model in json.loads(write_json(write_models(["a"])))["data"]:
        TypeAdapter(openai.types.Model).validate_python(model, strict=True)
        anthropic.types.ModelInfo.model_validate_json(json.dumps(model), strict=True)
    assert write_models([])["first_id"] is None
    counted = gateway.anthropic.messages.count_tokens(model="coder", messages=[{"role": "user", "content": "Go"}])
    assert counted.input_tokens == 42
