"""Conversations in the forms that the gateway needs: to compare, for a chat template, and for one that knows no tools."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from components.gateway.base import AgentToolCall, Message, Tool

OPENS_CALL, CLOSES_CALL = "<tool_call>", "</tool_call>"
_MOST_DEPTH = 64
_BRACKET = re.compile(r"[{}\[\]]")
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_TOOLS = "Tools, one JSON object a line:"
_HOW = f'To call one, write {OPENS_CALL}{{"name": ..., "arguments": {{...}}}}{CLOSES_CALL}.'


def make_canonical(message: Message) -> list[Any]:
    """What makes two messages the same, as JSON: no ids, and arguments by their values."""
    return [message.role, message.text, [[call.name, read_arguments(call.arguments)] for call in message.calls]]


def read_arguments(text: str) -> Any:
    """The value of JSON text; the text itself where it is none, or deep.

    **Example** '{"a": 1}' and '{"a":1}' are equal.
    """
    if text.count("{") + text.count("[") > _MOST_DEPTH and _measure_depth(text) > _MOST_DEPTH:
        return text
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _measure_depth(text: str) -> int:
    """How deep JSON text is nested."""
    depth = deepest = 0
    for mark in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if mark in "{[" else -1
        deepest = max(deepest, depth)
    return deepest


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def fold_messages(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as every chat template takes them: one system message, at the beginning, and no two of one speaker in a row.

    **Example** system a, user b, system c, assistant d: system a, user "b\\n\\nc", assistant d.
    """
    folded: list[Message] = []
    for message in messages:
        if message.role == "system" and any(each.role != "system" for each in folded):
            message = replace(message, role="user")
        last = folded[-1] if folded else None
        if last is not None and last.role == message.role != "tool":
            text = "\n\n".join(each.text for each in (last, message) if each.text)
            folded[-1] = replace(last, text=text, calls=(*last.calls, *message.calls))
        else:
            folded.append(message)
    return tuple(folded)


def spell_tools(messages: Sequence[Message], tools: Sequence[Tool]) -> tuple[Message, ...]:
    """The messages for a chat template that knows no tools: which there are, calls and results are text."""
    spelled = [_spell_message(message) for message in messages]
    if not tools:
        return tuple(spelled)
    listed = "\n".join(json.dumps(show_tool(tool)["function"], ensure_ascii=False) for tool in tools)
    return (Message(role="system", text=f"{_TOOLS}\n{listed}\n{_HOW}"), *spelled)


def show_tool(tool: Tool) -> dict[str, Any]:
    """A tool as chat templates expect it."""
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": function}


def spell_call(call: AgentToolCall) -> str:
    """A call as a model without a form of its own writes it."""
    return f'{OPENS_CALL}{{"name": {json.dumps(call.name)}, "arguments": {call.arguments}}}{CLOSES_CALL}'


def _spell_message(message: Message) -> Message:
    if message.role == "tool":
        return Message(role="user", text=f"<tool_response>\n{message.text}\n</tool_response>")
    parts = [message.text, *map(spell_call, message.calls)]
    return Message(role=message.role, text="\n".join(part for part in parts if part))
