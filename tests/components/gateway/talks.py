"""Conversations, tools and a small ChatML tokenizer for tests of the gateway."""

from typing import Any

from components.gateway.base import AgentRequest, AgentToolCall, Message, Tool
from tests.components.generation.tiny_models import make_tagged_tokenizer

CHATML = (
    "{% for m in messages %}<|start|>{{ m['role'] }}\n{{ m['content'] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant\n{% endif %}"
)
ADD = Tool(name="add", description="Adds.", parameters={"type": "object", "properties": {"a": {"type": "integer"}}})


def make_chat_tokenizer() -> Any:
    """A tokenizer of bytes with ChatML, which knows no tools."""
    tokenizer = make_tagged_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|start|>"]})
    tokenizer.chat_template = CHATML
    return tokenizer


def say(text: str, *, role: Any = "user", calls: tuple[AgentToolCall, ...] = (), answers: str = "") -> Message:
    return Message(role=role, text=text, calls=calls, answers=answers)


def call(call_id: str = "c1", arguments: str = '{"a": 1}', name: str = "add") -> AgentToolCall:
    return AgentToolCall(call_id=call_id, name=name, arguments=arguments)


def ask(*messages: Message, **also: Any) -> AgentRequest:
    return AgentRequest(**{"model": "main", "messages": messages, **also})
