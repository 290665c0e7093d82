"""POST /v1/messages and /v1/messages/count_tokens."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, RequestRefused, Role, Tool
from components.gateway.dialects.conversation import ROLES, build_request, fill_text, read_role, read_tool
from components.gateway.dialects.fields import Fields, KnownItems, read_part
from components.gateway.dialects.rules import open_body, split_names
from components.gateway.dialects.wire import write_event

_ROLES: Mapping[str, Role] = {name: role for name, role in ROLES.items() if name != "developer"}
_READ = split_names("messages system max_tokens stop_sequences thread context_management")
_TOOL_USE = {"type": "tool_use", "caller": {"type": "direct"}}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def read_messages(body: Mapping[str, Any], known: KnownItems) -> AgentRequest:
    """Raises RequestRefused; for `thread` in the form after which clients send their whole history."""
    fields, num_unread, num_known = open_body(body, _READ, "messages", known)
    if fields.has("thread"):
        why = "is not supported; send all messages: no thread is kept here"
        raise fields.refuse("thread", why, code="thread_unsupported_request", unsupported=("thread",))
    for edit in fields.read_fields("context_management").list_fields("edits"):
        if not edit.read_string("type").startswith("clear_thinking"):
            raise edit.refuse("type", "is not supported; leave it out: messages are never shortened here")
    messages: list[Message] = []
    if fields.has("system"):
        messages.append(Message(role="system", text=fields.read_content("system")))
    given = known.read(fields, "messages", num_known, _read_message)
    for said, unread in given:
        messages += said
        num_unread += unread
    if given and messages[-1].role == "assistant":
        (last,) = fields.list_fields("messages", len(given) - 1)
        raise last.refuse("role", "ends the messages, and is not continued here; end with a user's message")
    tools, unread = _read_tools(fields)
    return build_request(
        fields,
        messages,
        tools,
        limits=("max_tokens",),
        stop="stop_sequences",
        num_unread_fields=num_unread + unread,
    )


def _read_message(message: Fields) -> tuple[list[Message], int]:
    """What one message says, and how many of its fields and blocks nobody reads."""
    role, num_unread = read_role(message, _ROLES), message.count_unread("role", "content")
    content = message.values.get("content")
    if role == "system" or not isinstance(content, list):
        return [Message(role=role, text=message.read_content("content"))], num_unread
    messages: list[Message] = []
    texts: list[str] = []
    calls: list[AgentToolCall] = []
    num_results = 0
    for block in message.list_fields("content"):
        kind = block.read_string("type")
        if role == "assistant" and kind == "tool_use":
            arguments = json.dumps(block.read_fields("input").values, ensure_ascii=False)
            call_id, name = block.read_name("id"), block.read_name("name")
            calls.append(AgentToolCall(call_id=call_id, name=name, arguments=arguments))
        elif role == "assistant" and kind in ("thinking", "redacted_thinking"):
            num_unread += 1
        elif role == "user" and kind == "tool_result":
            if texts:
                messages.append(Message(role=role, text="\n".join(texts)))
                texts = []
            messages.append(_read_result(block))
            num_results += 1
        else:
            texts.append(read_part(block))
    if texts or not num_results:
        text = ("" if role == "assistant" else "\n").join(texts)
        messages.append(Message(role=role, text=text, calls=tuple(calls)))
    return messages, num_unread


def _read_result(block: Fields) -> Message:
    """A result that is an error says so in its text."""
    text = block.read_content("content") if block.values.get("content") is not None else ""
    failed = "Error: " if block.read_flag("is_error") else ""
    return Message(role="tool", text=failed + text, answers=block.read_name("tool_use_id"))


def _read_tools(body: Fields) -> tuple[list[Tool], int]:
    """The tools with a schema, and how many others there are: the provider's own."""
    tools = list(body.list_fields("tools"))
    own = [tool for tool in tools if tool.has("input_schema") or tool.read_string("type", "custom") == "custom"]
    return [read_tool(tool, "input_schema") for tool in own], len(tools) - len(own)


def write_messages(request: AgentRequest, answer: AgentAnswer) -> dict[str, Any]:
    text = fill_text(answer)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text, "citations": None}] if text else []
    blocks += [
        {"id": call.call_id, "name": call.name, "input": json.loads(call.arguments), **_TOOL_USE}
        for call in answer.calls
    ]
    body = _write_begun(request, answer)
    usage = {**body["usage"], "output_tokens": answer.num_answer_tokens}
    return {**body, "content": blocks, "stop_reason": _STOP_REASONS[answer.finish], "usage": usage}


def stream_messages(request: AgentRequest, answer: AgentAnswer) -> Iterator[bytes]:
    def event(name: str, **data: Any) -> bytes:
        return write_event({"type": name, **data}, name)

    whole = write_messages(request, answer)
    yield event("message_start", message=_write_begun(request, answer))
    num_texts = len(whole["content"]) - len(answer.calls)
    for index, block in enumerate(whole["content"]):
        if index < num_texts:
            begun, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            sent = answer.calls[index - num_texts].arguments
            begun, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": sent}
        yield event("content_block_start", index=index, content_block=begun)
        yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=end, usage=whole["usage"])
    yield event("message_stop")


def write_messages_refusal(refused: RequestRefused) -> dict[str, Any]:
    other = "api_error" if refused.status >= 500 else "invalid_request_error"
    error: dict[str, Any] = {"type": _ERROR_TYPES.get(refused.status, other), "message": str(refused)}
    if refused.unsupported:
        error["details"] = {"error_code": refused.code, "unsupported": list(refused.unsupported)}
    return {"type": "error", "error": error}


def write_token_count(num_tokens: int) -> dict[str, Any]:
    return {"input_tokens": num_tokens}


def _write_begun(request: AgentRequest, answer: AgentAnswer) -> dict[str, Any]:
    return {
        "id": f"msg_{answer.answer_id}",
        "type": "message",
        "role": "assistant",
        "model": request.model,
        "content": [],
        **dict.fromkeys(("stop_reason", "stop_sequence", "stop_details", "container")),
        "usage": {
            "input_tokens": answer.num_prompt_tokens,
            "output_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "service_tier": "standard",
            **dict.fromkeys(("cache_creation", "inference_geo", "output_tokens_details", "server_tool_use")),
        },
    }
