"""What an agent asks of the gateway and what it is told, in one inner form that all wire dialects are read into."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from components.errors import PermanentError

Role = Literal["system", "user", "assistant", "tool"]
Finish = Literal["stop", "length", "tool_calls"]
ToolChoice = Literal["auto", "none", "required"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A function that the agent offers to the model. `parameters` is a JSON schema; calls are answered with `namespace`."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    namespace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentToolCall:
    """A call of a tool by the model. `arguments` is the JSON text as it was sent; `call_id` names the call for its result."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation. `answers` is the id of the call whose result a tool's message is."""

    role: Role
    text: str
    calls: tuple[AgentToolCall, ...] = ()
    answers: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRequest:
    """One request of an agent: the whole conversation, its tools, and what it wants of sampling; None where it says nothing.

    `required_tool` is the one tool that must be called, "" for any. `num_unread_fields` counts what is not read.
    """

    model: str
    messages: tuple[Message, ...]
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice = "auto"
    required_tool: str = ""
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    wants_stream: bool = False
    wants_stream_usage: bool = False
    wants_logprobs: bool = False
    num_unread_fields: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentAnswer:
    """What the model answered. `answer_id` and the ids of its calls are a function of the call alone.

    The `arguments` of each of its calls are a JSON object without NaN and infinite numbers.
    `token_logprobs` are the texts of the sampled tokens with their log-probabilities. `created` is in seconds since 1970.
    """

    answer_id: str
    created: int
    text: str
    calls: tuple[AgentToolCall, ...]
    finish: Finish
    num_prompt_tokens: int
    num_answer_tokens: int
    token_logprobs: tuple[tuple[str, float], ...] = ()


class RequestRefused(PermanentError):
    """A request that the gateway does not answer. `status` is of HTTP, `field` the field of the body or "", `code` for
    programs; `unsupported` lists what a client may leave out and ask again."""

    def __init__(
        self, message: str, *, status: int = 400, field: str = "", code: str = "", unsupported: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.status, self.field, self.code, self.unsupported = status, field, code, unsupported
