"""A language model's manager as an adviser of the agent: what it reads, how its answer is checked, how long it took."""

import logging
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from components.errors import ConfigurationError
from components.hybrid.errors import DecisionValidationError, LLMConnectionError
from components.hybrid.game_facts import Action
from components.hybrid.language_model import WORDS, button_prompt
from components.hybrid.llm_actor import Advice, Question

_log = logging.getLogger(__name__)
_NUM_LINES, _NUM_OUTCOMES = 64, 20


class Manager(Protocol):
    """What the agent needs of a manager: an answer to a context in words, and how much of one it reads, in its own tokens."""

    @property
    def max_context_length(self) -> int: ...
    def get_action(self, context: str) -> tuple[int, dict[str, Any]]: ...
    def count_tokens(self, text: str) -> int: ...
    def longest_context(self) -> int: ...


class RecordingManager:
    """Asks a manager for each question, after what the game has seen: one line for a step, oldest first, the question last.

    An answer that is no legal button is rejected with a warning, and nothing is pressed; `error_rate` counts it.
    """

    def __init__(self, manager: Manager) -> None:
        self._manager = manager
        self.lines: deque[str] = deque(maxlen=_NUM_LINES)
        self._rejections: deque[bool] = deque(maxlen=_NUM_OUTCOMES)
        self.notes = ""
        """What stands before the next question: the goal, and what has helped in this state before."""
        self.seconds, self.num_rejected = 0.0, 0

    @property
    def error_rate(self) -> float:
        """The share of the last 20 answers that were rejected."""
        return sum(self._rejections) / len(self._rejections) if self._rejections else 0.0

    def remember(self, description: str, action: int, reward: float) -> None:
        """A step, for the context of later questions."""
        self.lines.append(f"{description} You pressed {WORDS[Action(action)]}: {reward:+.2f}.")

    def fit_context(self, lines: Sequence[str]) -> str:
        """The lines without the oldest ones, as many as the manager reads. Raises ConfigurationError if the last one, the
        question, is longer alone.

        **Example** three lines of 40 words each and a `longest_context` of 100: the last two.
        """
        most = self._manager.longest_context()

        def count_negative(first: int) -> int:
            return -self._manager.count_tokens("\n".join(lines[first:]))

        first = bisect_left(range(len(lines)), -most, key=count_negative)  # fewer lines have fewer tokens
        if first == len(lines):
            raise ConfigurationError(
                f"max_context_length {self._manager.max_context_length}: the question alone has "
                f"{self._manager.count_tokens(lines[-1])} tokens, more than {most}; use more, or a model that computes more"
            )
        return "\n".join(lines[first:])

    def advise(self, questions: Sequence[Question]) -> list[Advice]:
        """One answer for each question. Raises LLMConnectionError without a connection, and what the manager raises."""
        return [self._advice(question) for question in questions]

    def _advice(self, question: Question) -> Advice:
        context = self.fit_context([*self.lines, f"{self.notes}{button_prompt(question)}"])
        began = time.perf_counter()
        try:
            answer = self._manager.get_action(context)
        except DecisionValidationError as error:
            return self._reject(str(error))
        except OSError as error:
            name = type(self._manager).__name__
            raise LLMConnectionError(f"{name} did not answer: {error}; start the model, and play on") from error
        finally:
            self.seconds += time.perf_counter() - began
        action, metadata = _check_answer(answer)
        if action not in question.legal:
            return self._reject(f"{Action(action).name} is not allowed now")
        self._rejections.append(False)
        reason = str(metadata.get("reasoning") or metadata.get("source", ""))
        return Advice(action=Action(action), confidence=float(metadata["confidence"]), reasoning=reason)

    def _reject(self, reason: str) -> Advice:
        _log.warning("an answer is rejected, nothing is pressed: %s", reason)
        self._rejections.append(True)
        self.num_rejected += 1
        return Advice(action=Action.NONE, confidence=0.0, reasoning=f"rejected: {reason}")


def _check_answer(answer: Any) -> tuple[Any, Any]:
    """Action and metadata. Raises DecisionValidationError for what no manager may return."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise DecisionValidationError(f"get_action returned {answer!r}: return (action, metadata)")
    action, metadata = answer
    if isinstance(action, bool) or action not in list(Action):
        raise DecisionValidationError(f"get_action returned the action {action!r}: return 0 to {len(Action) - 1}")
    confidence = metadata.get("confidence") if isinstance(metadata, dict) else None
    if not isinstance(confidence, int | float | np.floating) or not 0 <= confidence <= 1:
        raise DecisionValidationError(
            f"get_action returned the metadata {metadata!r}: return a dict with a confidence from 0 to 1"
        )
    return action, metadata
