"""POST /v1/responses."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from components.gateway.base import AgentAnswer, AgentRequest, AgentToolCall, Message, Tool
from components.gateway.dialects.conversation import build_request, fill_text, read_role, read_tool, write_logprobs
from components.gateway.dialects.fields import Fields, KnownItems
from components.gateway.dialects.rules import open_body, split_names
from components.gateway.dialects.wire import write_event

_READ = split_names("input instructions max_output_tokens stop include")
_CONSTANT: Mapping[str, Any] = (
    dict.fromkeys(("completed_at", "error", "incomplete_details", "instructions", "previous_response_id", "user"))
    | dict.fromkeys(("max_tool_calls", "safety_identifier", "prompt_cache_key"))
    | dict.fromkeys(("top_logprobs", "frequency_penalty", "presence_penalty"), 0)
    | {"tools": [], "parallel_tool_calls": True, "store": False, "background": False, "metadata": {}}
    | {"truncation": "disabled", "service_tier": "default", "text": {"format": {"type": "text"}}}
    | {"reasoning": {"effort": None, "summary": None}}
)
"""What every response says alike."""
_LOGPROBS = "message.output_text.logprobs"


def read_responses(body: Mapping[str, Any], known: KnownItems) -> AgentRequest:
    """Raises RequestRefused."""
    fields, num_unread, num_known = open_body(body, _READ, "input", known)
    instructions = fields.read_string("instructions", "")
    messages = [Message(role="system", text=instructions)] if instructions else []
    if isinstance(fields.values.get("input"), str):
        messages.append(Message(role="user", text=fields.read_string("input")))
    else:
        num_unread += _join_items(known.read(fields, "input", num_known, _read_item), messages)
    tools, unread = _read_tools(fields)
    include = fields.values.get("include") or []
    return build_request(
        fields,
        messages,
        tools,
        source="input",
        limits=("max_output_tokens",),
        wants_logprobs=isinstance(include, list) and _LOGPROBS in include,
        num_unread_fields=num_unread + unread,
    )


def _join_items(items: Sequence[tuple[Message | AgentToolCall | None, int]], messages: list[Message]) -> int:
    """Appends the messages of the input, and returns how much of it nobody reads. A call joins the answer before it."""
    num_unread = 0
    calls: list[AgentToolCall] = []

    def close_answer() -> None:
        if calls:
            is_open = bool(messages) and messages[-1].role == "assistant"
            said = messages.pop() if is_open else Message(role="assistant", text="")
            messages.append(replace(said, calls=tuple(calls)))
            calls.clear()

    for said, unread in items:
        num_unread += unread
        if isinstance(said, AgentToolCall):
            calls.append(said)
        elif said is not None:
            close_answer()
            messages.append(said)
    close_answer()
    return num_unread


def _read_item(item: Fields) -> tuple[Message | AgentToolCall | None, int]:
    """What an item says, if anything is read, and how much of it nobody reads."""
    kind = item.read_string("type", "message")
    if kind == "reasoning":
        return None, 1
    if kind in ("function_call", "custom_tool_call"):
        return _read_call(item, kind), 0
    if kind in ("function_call_output", "custom_tool_call_output"):
        return Message(role="tool", text=item.read_content("output"), answers=item.read_name("call_id")), 0
    if kind != "message":
        raise item.refuse("type", "is not read; send messages, function calls and their outputs, whole")
    role = read_role(item)
    text = item.read_content("content", between="" if role == "assistant" else "\n")
    return Message(role=role, text=text), item.count_unread("type", "role", "content", "id", "status", "phase")


def _read_call(item: Fields, kind: str) -> AgentToolCall:
    if kind == "function_call":
        arguments = item.read_string("arguments")
    else:
        arguments = json.dumps({"input": item.read_string("input")}, ensure_ascii=False)
    return AgentToolCall(call_id=item.read_name("call_id"), name=item.read_name("name"), arguments=arguments)


def _read_tools(body: Fields) -> tuple[list[Tool], int]:
    """The functions, those in namespaces included, and how many other tools and texts of namespaces there are."""
    tools: list[Tool] = []
    num_unread = 0
    for tool in body.list_fields("tools"):
        kind = tool.read_string("type")
        is_space = kind == "namespace"
        num_unread += is_space and tool.has("description")
        for each in tool.list_fields("tools") if is_space else (tool,):
            if each.read_string("type") == "function":
                tools.append(read_tool(each, "parameters", tool.read_name("name") if is_space else ""))
            else:
                num_unread += 1
    return tools, num_unread


def write_responses(request: AgentRequest, answer: AgentAnswer) -> dict[str, Any]:
    is_cut = answer.finish == "length"
    return {
        **_write_head(request, answer),
        "status": "incomplete" if is_cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if is_cut else None,
        "completed_at": answer.created,
        "output": _write_items(request, answer),
        "usage": {
            "input_tokens": answer.num_prompt_tokens,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": answer.num_answer_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": answer.num_prompt_tokens + answer.num_answer_tokens,
        },
    }


def stream_responses(request: AgentRequest, answer: AgentAnswer) -> Iterator[bytes]:
    """The last event is response.completed even for an answer that was cut, as its status says: clients take
    response.incomplete for a failure, and ask again."""
    begun = {**_write_head(request, answer), "status": "in_progress", "output": [], "usage": None}
    events: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for index, item in enumerate(_write_items(request, answer)):
        events += _list_item_events(index, item)
    events.append(("response.completed", {"response": write_responses(request, answer)}))
    for number, (name, data) in enumerate(events):
        yield write_event({"type": name, "sequence_number": number, **data}, name)


def _list_item_events(index: int, item: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    empty: dict[str, Any] = {"content": []} if item["type"] == "message" else {"arguments": ""}
    begun = {"output_index": index, "item": {**item, **empty, "status": "in_progress"}}
    at = {"output_index": index, "item_id": item["id"]}
    if item["type"] == "message":
        (part,) = item["content"]
        at["content_index"] = 0
        between = [
            ("response.content_part.added", {**at, "part": {**part, "text": "", "logprobs": []}}),
            ("response.output_text.delta", {**at, "delta": part["text"], "logprobs": part["logprobs"]}),
            ("response.output_text.done", {**at, "text": part["text"], "logprobs": part["logprobs"]}),
            ("response.content_part.done", {**at, "part": part}),
        ]
    else:
        done = {"arguments": item["arguments"], "name": item["name"]}
        between = [
            ("response.function_call_arguments.delta", {**at, "delta": item["arguments"]}),
            ("response.function_call_arguments.done", {**at, **done}),
        ]
    end = {"output_index": index, "item": item}
    return [("response.output_item.added", begun), *between, ("response.output_item.done", end)]


def _write_items(request: AgentRequest, answer: AgentAnswer) -> list[dict[str, Any]]:
    status = "incomplete" if answer.finish == "length" else "completed"
    items: list[dict[str, Any]] = []
    if text := fill_text(answer):
        logprobs = write_logprobs(answer) if request.wants_logprobs else []
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": logprobs}
        message = {"type": "message", "id": f"msg_{answer.answer_id}", "status": status, "role": "assistant"}
        items.append({**message, "content": [part]})
    spaces = {tool.name: tool.namespace for tool in request.tools if tool.namespace}
    for position, call in enumerate(answer.calls):
        item = {"type": "function_call", "id": f"fc_{answer.answer_id}_{position}", "call_id": call.call_id}
        space = {"namespace": spaces[call.name]} if call.name in spaces else {}
        items.append({**item, "name": call.name, **space, "arguments": call.arguments, "status": "completed"})
    return items


def _write_head(request: AgentRequest, answer: AgentAnswer) -> dict[str, Any]:
    chosen = {"type": "function", "name": request.required_tool} if request.required_tool else request.tool_choice
    return {
        "id": f"resp_{answer.answer_id}",
        "object": "response",
        "created_at": answer.created,
        "model": request.model,
        "max_output_tokens": request.max_tokens,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "tool_choice": chosen,
        **_CONSTANT,
    }
