"""Which fields of a body are read, passed over, refused and counted, and whether a body is fit to be read at all."""

import json
from collections.abc import Mapping
from itertools import chain
from typing import Any

from components.gateway.base import RequestRefused
from components.gateway.dialects.fields import NOTHING, Fields, KnownItems, shorten

_MAX_DEPTH = 100
_REFUSED = {
    "thread": "send all messages: no thread is kept here",
    "previous_response_id": "send the whole input: no response is kept here",
    "conversation": "send the whole input: no conversation is kept here",
    "prompt": "send its text as instructions: no prompt is kept here",
    "background": "wait for the answer: none is kept here",
    "container": "leave it out: no container is kept here",
    "context_management": "leave it out: a prompt is never shortened here",
    "compaction": "leave it out: a prompt is never shortened here",
    "mcp_servers": "call them from the agent, and declare their tools",
    "web_search_options": "search from the agent, and declare its tool",
    "functions": "send tools",
    "function_call": "send tool_choice",
    "n": "send one request for each answer",
    "logit_bias": "leave it out: answers are sampled from the policy as it is",
    "modalities": "leave it out: answers are text",
    "audio": "leave it out: answers are text",
    **dict.fromkeys(("messages", "input", "instructions", "system"), "it belongs to another API; send it there"),
}
"""What would change the prompt or keep state, in whatever dialect it comes, with the remedy."""
_DEFAULTS: Mapping[str, Any] = {
    "n": 1,
    "background": False,
    "function_call": "none",
    "modalities": ["text"],
    "response_format": {"type": "text"},
    "text": {"format": {"type": "text"}},
    "thinking": {"type": "disabled"},
    "truncation": "disabled",
    "parallel_tool_calls": True,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "top_logprobs": 0,
}
"""A field with this value says as much as its absence."""


def split_names(names: str) -> frozenset[str]:
    return frozenset(names.split())


_PASSED_OVER = split_names(
    "store metadata client_metadata user user_profile_id workspace_id safety_identifier service_tier inference_geo speed "
    "prediction cache_control prompt_cache_key prompt_cache_options prompt_cache_retention stream_options include diagnostics"
)
"""What changes neither a prompt nor an answer."""
_READ = split_names("model tools tool_choice temperature top_p seed stream")
"""What every dialect reads."""


def open_body(body: Mapping[str, Any], read: frozenset[str], source: str, known: KnownItems) -> tuple[Fields, int, int]:
    """The fields of a body that is fit to be read, how many nobody reads, and how many items of its list `source` are known.
    `read` are the fields of one dialect alone.

    A schema for the answer is among the latter: it changes no prompt, an agent checks what it gets, and a refusal would end
    agents whose helpers ask for one.
    """
    if not isinstance(body, dict):
        raise RequestRefused("the body is no JSON object; send one")
    num_known, fields, num_unread = known.count(body.get(source)), Fields(body), 0
    new = {**body, source: body[source][num_known:]} if num_known else body
    _check_depth(new)
    for name, value in new.items():
        _check_encodable(name, value)
        if name in read or name in _READ or value in NOTHING or _DEFAULTS.get(name) == value:
            continue
        if name in _REFUSED:
            raise fields.refuse(name, f"is not supported; {_REFUSED[name]}")
        num_unread += name not in _PASSED_OVER
    return fields, num_unread, num_known


def _check_depth(body: Mapping[str, Any]) -> None:
    level: list[Any] = [body]
    for _ in range(_MAX_DEPTH):
        inner = (value.values() if isinstance(value, dict) else value for value in level)
        level = [each for each in chain.from_iterable(inner) if isinstance(each, (dict, list))]
        if not level:
            return
    raise RequestRefused(f"the body is nested deeper than {_MAX_DEPTH} levels; send a flatter one")


def _check_encodable(name: str, value: object) -> None:
    """Raises RequestRefused for what would fail later: in a prompt, in a record, in an answer."""
    try:
        json.dumps({name: value}, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        field = shorten(ascii(name)[1:-1])
        what = "NaN, an infinite number, one of thousands of digits or half of a surrogate pair"
        raise RequestRefused(f"{field} holds {what}; send what JSON in UTF-8 can say", field=field) from error
