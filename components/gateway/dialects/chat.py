"""POST /v1/chat/completions."""

from collections.abc import Iterator, Mapping
from typing import Any

from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, Role, Tool
from components.gateway.dialects.conversation import (
    ROLES,
    build_request,
    fill_text,
    read_role,
    read_tool,
    write_logprobs,
)
from components.gateway.dialects.fields import Fields, KnownItems
from components.gateway.dialects.rules import open_body, split_names
from components.gateway.dialects.wire import write_event

_ROLES: Mapping[str, Role] = {**ROLES, "tool": "tool"}
_READ = split_names("messages max_tokens max_completion_tokens stop stream_options logprobs")


def read_chat(body: Mapping[str, Any], known: KnownItems) -> AgentRequest:
    """Raises RequestRefused."""
    fields, num_unread, num_known = open_body(body, _READ, "messages", known)
    messages = known.read(fields, "messages", num_known, _read_message)
    tools, unread = _read_tools(fields)
    return build_request(
        fields,
        [message for message, _ in messages],
        tools,
        limits=("max_completion_tokens", "max_tokens"),
        wants_stream_usage=fields.read_fields("stream_options").read_flag("include_usage"),
        wants_logprobs=fields.read_flag("logprobs"),
        num_unread_fields=num_unread + unread + sum(number for _, number in messages),
    )


def _read_message(message: Fields) -> tuple[Message, int]:
    role = read_role(message, _ROLES)
    for legacy, remedy in (("function_call", "send tool_calls"), ("audio", "send its text as content")):
        if message.has(legacy):
            raise message.refuse(legacy, f"is not supported; {remedy}")
    if role == "tool":
        answers = message.read_name("tool_call_id")
        unread = message.count_unread("role", "content", "tool_call_id")
        return Message(role=role, text=message.read_content("content"), answers=answers), unread
    if role != "assistant":
        return Message(role=role, text=message.read_content("content")), message.count_unread("role", "content")
    said = "content" if message.has("content") else "refusal"
    text = message.read_content("content", between="") if said == "content" else message.read_string("refusal", "")
    calls = tuple(map(_read_call, message.list_fields("tool_calls")))
    unread = message.count_unread("role", said, "tool_calls")
    return Message(role=role, text=text, calls=calls), unread


def _read_call(call: Fields) -> AgentToolCall:
    if call.read_string("type", "function") != "function":
        raise call.refuse("type", "is no call of a function; send function calls only")
    function = call.read_fields("function")
    return AgentToolCall(
        call_id=call.read_name("id"), name=function.read_name("name"), arguments=function.read_string("arguments")
    )


def _read_tools(body: Fields) -> tuple[list[Tool], int]:
    tools = list(body.list_fields("tools"))
    functions = [tool.read_fields("function") for tool in tools if tool.read_string("type") == "function"]
    return [read_tool(function, "parameters") for function in functions], len(tools) - len(functions)


def write_chat(request: AgentRequest, answer: AgentAnswer) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": fill_text(answer) or None,
        "refusal": None,
        "annotations": [],
    }
    if answer.calls:
        message["tool_calls"] = [_write_call(call, call.arguments) for call in answer.calls]
    choice = {
        "index": 0,
        "message": message,
        "logprobs": _write_logprobs(request, answer),
        "finish_reason": answer.finish,
    }
    return {**_write_head(request, answer, "chat.completion"), "choices": [choice], "usage": _write_usage(answer)}


def stream_chat(request: AgentRequest, answer: AgentAnswer) -> Iterator[bytes]:
    head = _write_head(request, answer, "chat.completion.chunk")
    if request.wants_stream_usage:
        head["usage"] = None

    def chunk(delta: Mapping[str, Any], finish: str | None = None, logprobs: Any = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": finish}
        return write_event({**head, "choices": [choice]})

    yield chunk({"role": "assistant", "content": "", "refusal": None})
    if text := fill_text(answer):
        yield chunk({"content": text})
    for index, call in enumerate(answer.calls):
        yield chunk({"tool_calls": [{"index": index, **_write_call(call, "")}]})
        yield chunk({"tool_calls": [{"index": index, "function": {"arguments": call.arguments}}]})
    yield chunk({}, finish=answer.finish, logprobs=_write_logprobs(request, answer))
    if request.wants_stream_usage:
        yield write_event({**head, "choices": [], "usage": _write_usage(answer)})
    yield b"data: [DONE]\n\n"


def _write_head(request: AgentRequest, answer: AgentAnswer, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{answer.answer_id}",
        "object": kind,
        "created": answer.created,
        "model": request.model,
        "system_fingerprint": "troupe",
        "service_tier": "default",
    }


def _write_call(call: AgentToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.call_id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _write_logprobs(request: AgentRequest, answer: AgentAnswer) -> dict[str, Any] | None:
    if not request.wants_logprobs:
        return None
    return {"content": write_logprobs(answer), "refusal": None}


def _write_usage(answer: AgentAnswer) -> dict[str, Any]:
    return {
        "prompt_tokens": answer.num_prompt_tokens,
        "completion_tokens": answer.num_answer_tokens,
        "total_tokens": answer.num_prompt_tokens + answer.num_answer_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
