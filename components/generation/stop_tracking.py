"""An answer that is still being sampled, where its text decides how long it may become."""

from collections.abc import Sequence
from typing import Literal

from components.errors import ConfigurationError
from components.generation.base import GenerationRequest
from components.models.tokenizer import HuggingFaceTokenizer
from components.text.think_tags import CLOSING, OPENING

_SLACK = 4
"""Tokens decoded before those that can hold a string: the first ones of a part may read differently than in the whole, as an
incomplete character or without their space."""


def invalid_stop_reason(
    stop: Sequence[str], max_thinking_tokens: int | None, tokenizer: HuggingFaceTokenizer
) -> str | None:
    """The setting of an agent that waits for what no text of an answer holds: field, value, reason and remedy. None if none."""
    for text in stop:
        if tokenizer.is_special(text):
            return (
                f"stop {text!r}: it is a special token of the model, which no text of an answer holds; the model's end tokens "
                "end its answers anyway: remove it"
            )
    for tag in (OPENING, CLOSING):
        if max_thinking_tokens is not None and tokenizer.is_special(tag):
            return (
                f"max_thinking_tokens {max_thinking_tokens}: {tag} is a special token of the model, which no text of an answer "
                "holds, so its thinking cannot be told from its answer; leave it out"
            )
    if max_thinking_tokens is not None and max_thinking_tokens < (least := tokenizer.num_sampled(OPENING + CLOSING)):
        return (
            f"max_thinking_tokens {max_thinking_tokens}: {OPENING} and {CLOSING} alone are {least} tokens of the model, so no "
            f"thinking would ever end; use at least {least}, and room for thoughts"
        )
    return None


class StopTracker:
    """The sampled tokens of one candidate, and how many it may have.

    A stop string ends it with the token that completes the string. With a budget for thinking, an answer that begins with
    <think>, or whose prompt ends with it, has `max_thinking_tokens` up to and including </think>, and after that
    `max_new_tokens`; another has `max_new_tokens` alone. Only the first </think> counts.

    **Example** limits 5 and 2, one token a tag or letter: of `<think> a </think> b c d` and `<think> a b c d e` the first five
    are the answer, of `b c d` the first two.
    """

    def __init__(self, request: GenerationRequest, tokenizer: HuggingFaceTokenizer) -> None:
        """Raises ConfigurationError where no text can end it."""
        if reason := invalid_stop_reason(request.stop, request.max_thinking_tokens, tokenizer):
            raise ConfigurationError(f"agents.<role>.{reason}")
        self._tokenizer = tokenizer
        self._stop = request.stop
        self._max_new_tokens, self._max_thinking_tokens = request.max_new_tokens, request.max_thinking_tokens
        self._part: Literal["opening", "thinking", "answer"] = "answer"
        self._text_tokens: list[int] = []
        self.num_tokens = 0
        self.limit = request.max_new_tokens
        """Maximal tokens in all, as far as its text shows by now."""
        self.is_stopped = False
        """Whether its text holds a stop string."""
        if request.max_thinking_tokens is not None:
            self._part = "opening"
            if tokenizer.opens_thinking(request.prompt_tokens):
                self._think()

    @property
    def is_over(self) -> bool:
        """Whether it may have no more tokens, or needs none. An end token is the caller's to see."""
        return self.is_stopped or self.num_tokens >= self.limit

    @property
    def remaining(self) -> int:
        """Maximal further tokens before its text has to be looked at again; those beyond `limit` are not part of it."""
        thinking = self._max_thinking_tokens or 0
        may_think = self._part != "answer" and self.num_tokens < thinking
        return (thinking if may_think else self.limit) - self.num_tokens

    @property
    def watched(self) -> tuple[str, ...]:
        """The strings whose appearance changes what it may become."""
        return self._stop if self._part == "answer" else (*self._stop, CLOSING)

    def add(self, token: int) -> None:
        """Append a sampled token."""
        self.num_tokens += 1
        if token not in self._tokenizer.text_tokens:
            return
        self._text_tokens.append(token)
        if self._part == "opening":
            self._look_for_thinking()
        if self._part == "thinking" and self._holds((CLOSING,)):
            self._part, self.limit = "answer", self.num_tokens + self._max_new_tokens
        self.is_stopped = self._holds(self._stop)

    def _look_for_thinking(self) -> None:
        text = self._tokenizer.decode(self._text_tokens).lstrip()
        if text.startswith(OPENING):
            self._think()
        elif not OPENING.startswith(text):
            self._part = "answer"

    def _think(self) -> None:
        assert self._max_thinking_tokens is not None
        self._part, self.limit = "thinking", self._max_thinking_tokens

    def _holds(self, strings: Sequence[str]) -> bool:
        """Whether the text holds one of `strings`, none of which it held before its newest token.

        Only as many tokens are decoded as can hold the longest string, each at least one byte of it.
        """
        if not strings:
            return False
        size = _SLACK + max(len(string.encode()) for string in strings)
        if not _is_in(strings, self._tokenizer.decode(self._text_tokens[-size:])):
            return False
        return len(self._text_tokens) <= size or _is_in(strings, self._tokenizer.decode(self._text_tokens))


def _is_in(strings: Sequence[str], text: str) -> bool:
    return any(string in text for string in strings)
