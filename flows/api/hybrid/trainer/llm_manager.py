"""Managers of language models that are asked for buttons: the base of one's own, and a model in this process."""

import re
from abc import ABC, abstractmethod
from functools import cached_property
from os.path import expanduser
from typing import Any

from components.errors import ConfigurationError
from components.hybrid.language_model import ADVISER_TASK, WORDS, read_legal
from components.identity import seed_for
from components.methods.population.served_models import LivePolicy, Question, ServedModel
from flows.api.fields import Count, check_arguments
from flows.api.hybrid.core.exceptions import DecisionValidationError, LLMConnectionError

_WORDS = re.compile(r"\b(?:A|B|(?i:start|select|up|down|left|right|none))\b")
_NAMES = {word.lower(): action for action, word in WORDS.items()}
_ANSWER_TOKENS = 8
"""What is left for a button."""


class BaseLLMManager(ABC):
    """What asks a language model for a button. A subclass says how, in `get_action`.

    `max_context_length` bounds what is asked: the oldest lines of a context are left out until its tokens are as few.
    """

    max_context_length = 2048

    @check_arguments
    def __init__(self, *, max_context_length: Count = 2048) -> None:
        self.max_context_length = max_context_length

    @abstractmethod
    def get_action(self, context: str) -> tuple[int, dict[str, Any]]:
        """The action, 0 to 8, and metadata: `source`, `confidence` from 0 to 1, and `reasoning` if there is one.

        `context` has a line for each step of the episode, oldest first; the last one is the state, the goal, the buttons
        and the question. Raise LLMConnectionError, or an OSError, if the model cannot be reached.
        """

    def parse_action(self, response: str) -> int:
        """The last button that a text names, or the number that it is. Raises DecisionValidationError if it names none.

        **Example** "The door is north: Up" is 4, "7" is 7, "a good idea" names none: A and B are capital letters.
        """
        if response.strip().isdigit() and int(response) < len(WORDS):
            return int(response)
        found = _WORDS.findall(response)
        if not found:
            raise DecisionValidationError(
                f"response {response!r}: names no button; answer with one of {', '.join(WORDS.values())}"
            )
        return int(_NAMES[found[-1].lower()])

    def count_tokens(self, text: str) -> int:
        """The tokens of a context: its words, unless a subclass knows its model's."""
        return len(text.split())

    def longest_context(self) -> int:
        """The most tokens of a context: `max_context_length`, unless a subclass knows that its model computes less."""
        return self.max_context_length

    def close(self) -> None:  # noqa: B027  (nothing to free is no error)
        """Free the model, if there is one."""


class LLMManager(BaseLLMManager):
    """Asks a model in this process: "tiny" (random weights), "smollm2-135m", a model folder or a name on the hub.

    The answer is drawn from the model's probabilities of the allowed buttons, its confidence is the probability that it was
    drawn with. The model is loaded by the first question; equal contexts have equal answers.
    """

    def __init__(self, model: str = "tiny", *, max_context_length: int = 2048, device: str = "cpu") -> None:
        super().__init__(max_context_length=max_context_length)
        self.model, self.device = expanduser(model), device

    def get_action(self, context: str) -> tuple[int, dict[str, Any]]:
        """An allowed action. Raises ConfigurationError or ServiceMissing if there is no such model."""
        legal = read_legal(context)
        question = self._question(context)
        index, probability = self._policy.choose(question, [WORDS[action] for action in legal])
        return int(legal[index]), {"source": self.model, "confidence": probability}

    def count_tokens(self, text: str) -> int:
        """The tokens that the model reads of a context, those of its instructions included."""
        return self._policy.num_prompt_tokens(self._question(text))

    def longest_context(self) -> int:
        """`max_context_length`, or less where the model itself computes less at once."""
        most = self._served.most_tokens
        return self.max_context_length if most is None else min(self.max_context_length, most - _ANSWER_TOKENS)

    def close(self) -> None:
        """Free the model; the next question loads it again."""
        vars(self).pop("_policy", None)
        served = vars(self).pop("_served", None)
        if served is not None:
            served.close()

    def _question(self, context: str) -> Question:
        return Question(prompt=context, instructions=ADVISER_TASK, seed=seed_for(0, "advice", context))

    @cached_property
    def _served(self) -> ServedModel:
        try:
            return ServedModel(self.model, device=self.device)
        except ConfigurationError as error:
            raise ConfigurationError(str(error).replace("policies.model.base", "llm_model")) from error
        except OSError as error:
            raise LLMConnectionError(f"llm_model {self.model!r} cannot be loaded: {error}") from error

    @cached_property
    def _policy(self) -> LivePolicy:
        return self._served.policy("adviser")
