"""Observations as prompt tokens."""

from collections.abc import Mapping
from typing import Any, Literal

from components.generation.base import Tokenizer
from components.schema import Observation

PromptFormat = Literal["compact", "chat"]


def encode_observation(
    observation: Observation,
    tokenizer: Tokenizer,
    prompt_format: PromptFormat,
    arguments: Mapping[str, Any] | None = None,
) -> tuple[int, ...]:
    """The prompt of one node. compact: only the state. chat: instructions and state in the model's chat template, to which
    `arguments` are passed.

    Raises ConfigurationError if the tokenizer lacks a character, or the template an argument.
    """
    if prompt_format == "compact":
        return tokenizer.encode(observation.state)
    return tokenizer.encode_chat(observation.instructions, observation.state, arguments)
