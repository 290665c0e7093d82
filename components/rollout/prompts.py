"""What an agent sees, as prompt tokens."""

from typing import Literal

from components.generation.base import Tokenizer
from components.schema import Observation

PromptFormat = Literal["compact", "chat"]


def encode_observation(observation: Observation, tokenizer: Tokenizer, prompt_format: PromptFormat) -> tuple[int, ...]:
    """The prompt of one node. compact: the state alone. chat: instructions and state under the model's chat template.

    Raises ConfigurationError when the tokenizer does not know a character.
    """
    if prompt_format == "compact":
        return tokenizer.encode(observation.state)
    return tokenizer.encode_chat(observation.instructions, observation.state)
