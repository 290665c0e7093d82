"""The dialects by the path of their requests."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from components.gateway.base import AgentAnswer, AgentRequest, RequestRefused
from components.gateway.dialects import chat, messages, responses, wire
from components.gateway.dialects.fields import KnownItems

COUNT_TOKENS_PATH = "/v1/messages/count_tokens"
"""Whose body the dialect of messages reads, and `messages.write_token_count` answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One wire format: reads requests, writes answers and refusals. Equal arguments give equal bytes.

    The last chunk of `stream` is its end.
    """

    path: str
    read: Callable[[Mapping[str, Any], KnownItems], AgentRequest]
    """What is asked, with what is known of earlier requests."""
    write: Callable[[AgentRequest, AgentAnswer], dict[str, Any]]
    stream: Callable[[AgentRequest, AgentAnswer], Iterator[bytes]]
    write_refusal: Callable[[RequestRefused], dict[str, Any]]

    def stream_refusal(self, refused: RequestRefused) -> bytes:
        """The event that ends a stream whose answer failed after it had begun."""
        return wire.write_event(self.write_refusal(refused), "error")


CHAT = Dialect(
    path="/v1/chat/completions",
    read=chat.read_chat,
    write=chat.write_chat,
    stream=chat.stream_chat,
    write_refusal=wire.write_openai_refusal,
)
RESPONSES = Dialect(
    path="/v1/responses",
    read=responses.read_responses,
    write=responses.write_responses,
    stream=responses.stream_responses,
    write_refusal=wire.write_openai_refusal,
)
MESSAGES = Dialect(
    path="/v1/messages",
    read=messages.read_messages,
    write=messages.write_messages,
    stream=messages.stream_messages,
    write_refusal=messages.write_messages_refusal,
)
DIALECTS: Mapping[str, Dialect] = {dialect.path: dialect for dialect in (CHAT, RESPONSES, MESSAGES)}
