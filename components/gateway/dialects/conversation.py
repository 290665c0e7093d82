"""What the requests of all dialects share: roles, tools, the choice of a tool, wishes for sampling."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from components.gateway.base import AgentAnswer, AgentRequest, Message, Role, Tool, ToolChoice
from components.gateway.dialects.fields import Fields, shorten

_MOST_TOKENS = 2**31 - 1
_LEAST_TOP_P = 1e-6
_CHOICES: Mapping[str, ToolChoice] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
_NO_PARAMETERS = {"type": "object", "properties": {}}
ROLES: Mapping[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read_role(message: Fields, roles: Mapping[str, Role] = ROLES) -> Role:
    role = roles.get(message.read_string("role", ""))
    if role is None:
        raise message.refuse("role", f"is not known; send one of {', '.join(roles)}")
    return role


def read_tool(tool: Fields, schema: str, namespace: str = "") -> Tool:
    """A function; `schema` is the field of its parameters."""
    return Tool(
        name=tool.read_name("name"),
        description=tool.read_string("description", ""),
        parameters=_NO_PARAMETERS if tool.values.get(schema) is None else tool.read_fields(schema).values,
        namespace=namespace,
    )


def build_request(
    body: Fields,
    messages: Sequence[Message],
    tools: Sequence[Tool],
    *,
    source: str = "messages",
    limits: tuple[str, ...],
    stop: str = "stop",
    wants_stream_usage: bool = False,
    wants_logprobs: bool = False,
    num_unread_fields: int,
) -> AgentRequest:
    """The request with its wishes for sampling. `source` is the field of the messages; the first of `limits` that is given is
    the number of tokens."""
    if not messages:
        raise body.refuse(source, "holds no message; send at least one")
    _check_names(tools, body)
    given = [body.read_integer(limit, 1, _MOST_TOKENS) for limit in limits]
    tool_choice, required_tool = _read_tool_choice(body, {tool.name for tool in tools})
    return AgentRequest(
        model=body.read_name("model"),
        messages=tuple(messages),
        tools=tuple(tools),
        tool_choice=tool_choice,
        required_tool=required_tool,
        max_tokens=next((limit for limit in given if limit is not None), None),
        temperature=body.read_number("temperature", 0, 2),
        top_p=body.read_number("top_p", _LEAST_TOP_P, 1),
        seed=body.read_integer("seed", -(2**63), 2**63 - 1),
        stop=_read_stop(body, stop),
        wants_stream=body.read_flag("stream"),
        wants_stream_usage=wants_stream_usage,
        wants_logprobs=wants_logprobs,
        num_unread_fields=num_unread_fields,
    )


def _check_names(tools: Sequence[Tool], body: Fields) -> None:
    name, times = max(Counter(tool.name for tool in tools).items(), key=lambda item: item[1], default=("", 1))
    if times > 1:
        raise body.refuse("tools", f"declare {shorten(ascii(name))} twice; give each tool a name of its own")


def _read_stop(body: Fields, name: str) -> tuple[str, ...]:
    value = body.values.get(name)
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise body.refuse(name, "does not say where to stop; send texts that are not empty")
    return tuple(texts)


def _read_tool_choice(body: Fields, names: set[str]) -> tuple[ToolChoice, str]:
    """What is chosen and the one tool that is named, in the spelling of any dialect."""
    value = body.values.get("tool_choice")
    if value is None:
        return "auto", ""
    choice = Fields({"type": value}, "tool_choice") if isinstance(value, str) else body.read_fields("tool_choice")
    kind = choice.read_string("type")
    if kind in ("function", "tool"):
        named = (choice.read_fields("function") if choice.has("function") else choice).read_name("name")
        if named not in names:
            raise body.refuse(
                "tool_choice", f"names a tool that is not declared; name one of the {len(names)} in tools"
            )
        return "required", named
    if kind not in _CHOICES:
        raise body.refuse("tool_choice", "is not supported; send auto, none, required (any) or one function by name")
    if _CHOICES[kind] == "required" and not names:
        raise body.refuse("tool_choice", "needs a tool; declare one in tools")
    return _CHOICES[kind], ""


def fill_text(answer: AgentAnswer) -> str:
    """The text of an answer; a blank where there is nothing at all, for which clients fail or ask again."""
    return answer.text or ("" if answer.calls else " ")


def write_logprobs(answer: AgentAnswer) -> list[dict[str, Any]]:
    """The sampled tokens in the form that both of OpenAI's dialects use."""
    return [
        {"token": token, "logprob": logprob, "bytes": list(token.encode(errors="replace")), "top_logprobs": []}
        for token, logprob in answer.token_logprobs
    ]
