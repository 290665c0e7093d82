"""How requests of agents reach an engine: one alone, those that wait together, or each on its own at once."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from components.errors import ConfigurationError
from components.generation.base import Completion, GenerationRequest, Generator, KeepsPrefixes
from components.schema import PolicyVersion

CallMode = Literal["exact", "waves", "concurrent"]
Ask = Callable[[str, Sequence[GenerationRequest]], Sequence[Sequence[Completion]]]
"""The answers of a policy to each of some requests."""
CALLS_AT_ONCE: Mapping[CallMode, int] = {"exact": 1, "waves": 16, "concurrent": 64}
PROGRAMS_AT_ONCE: Mapping[CallMode, int] = {"exact": 4, "waves": 16, "concurrent": 16}


def ask_engine(
    engine: Generator, requests: Sequence[GenerationRequest], version: PolicyVersion
) -> list[tuple[Completion, ...]]:
    """The answers to requests whose prompts continue earlier ones, which an engine that can does not read again."""
    if isinstance(engine, KeepsPrefixes):
        return engine.generate_on_kept(requests, version)
    return engine.generate(requests, version)


def open_sampling(ask: Ask, mode: CallMode) -> Callable[[str, GenerationRequest], Sequence[Completion]]:
    """What is asked for one answer, from as many threads as the mode has calls at once."""
    return Waves(ask) if mode == "waves" else lambda policy, request: ask(policy, [request])[0]


@dataclass(slots=True)
class _Call:
    request: GenerationRequest
    answers: Sequence[Completion] | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Waves:
    """Asks for all that waits at once, one wave after the other: many answers cost little more than one.

    **Example** four requests of a policy come while an answer of it is sampled: the next wave has four.
    """

    ask: Ask
    _waiting: dict[str, list[_Call]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _wave: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, policy: str, request: GenerationRequest) -> Sequence[Completion]:
        """The answers to `request`. Raises what the engine raises."""
        own = _Call(request)
        with self._lock:
            self._waiting.setdefault(policy, []).append(own)
        with self._wave:
            if own.answers is None and own.error is None:
                with self._lock:
                    wave = self._waiting.pop(policy)
                self._answer(policy, wave)
        if own.error is not None:
            raise own.error
        assert own.answers is not None, "a wave leaves out one of its calls"
        return own.answers

    def _answer(self, policy: str, wave: Sequence[_Call]) -> None:
        """What an engine refuses together is asked one by one: what is wrong with one request is no other's fault."""
        try:
            for call, answers in zip(wave, self.ask(policy, [call.request for call in wave]), strict=True):
                call.answers = answers
        except BaseException as error:
            if isinstance(error, ConfigurationError) and len(wave) > 1:
                for call in wave:
                    self._answer(policy, [call])
                return
            for call in wave:
                call.error = error
