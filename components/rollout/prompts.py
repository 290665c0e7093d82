"""Observations as prompt tokens."""

from typing import Literal

from components.generation.base import Tokenizer
from components.schema import Observation

PromptFormat = Literal["compact", "chat"]


def encode_observation(observation: Observation, tokenizer: Tokenizer, prompt_format: PromptFormat) -> tuple[int, ...]:
    """The prompt of one node. compact: only the state. chat: instructions and state in the model's chat template.

    Raises ConfigurationError if the tokenizer lacks a character.
    """
    if prompt_format == "compact":
        return tokenizer.encode(observation.state)
    return tokenizer.encode_chat(observation.instructions, observation.state)
