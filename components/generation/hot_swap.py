"""New weights under load: two engines take turns, so that no request waits for a load and none sees two versions.

One engine serves. New weights go into the other one, are probed there, and only then new requests are sent to it; those
under way end where they began, and the old engine is loaded anew only after its last one. Weights that cannot be loaded,
or fail the probe, never serve: the old version goes on.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from components.errors import ConfigurationError, LogprobMismatch
from components.generation.base import Completion, GenerationRequest, Generator, Tokenizer
from components.schema import PolicyVersion

Check = Callable[[Generator], None]
"""Tries the weights that an engine has loaded. Raises what is wrong with them."""


@dataclass(slots=True, kw_only=True)
class _Slot:
    """An engine, and the requests under way in it."""

    name: str
    engine: Generator
    num_under_way: int = 0


class HotSwap:
    """A policy that serves from any thread while its weights are replaced.

    Both engines know the policy under names of their own, `<policy>.0` and `<policy>.1`, because on one base they are two
    adapters; callers see `policy` alone.

    **Example** twenty `swap` beside a thousand `generate`: each answer names the version that was served when it was asked,
    and all its tokens are of that one.
    """

    def __init__(self, engines: tuple[Generator, Generator], *, check: Check) -> None:
        """`check` tries each new version before it serves, as `finite_probe`."""
        self._check = check
        self._slots = [_Slot(name=str(index), engine=engine) for index, engine in enumerate(engines)]
        self._active: _Slot | None = None
        self._version: PolicyVersion | None = None
        self._changed = threading.Condition()
        self._swapping = threading.Lock()

    @property
    def version(self) -> PolicyVersion | None:
        """The version that new requests get; None before the first one."""
        return self._version

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the version that serves. Raises ConfigurationError before the first one."""
        with self._held() as (slot, _):
            return slot.engine.tokenizer

    def swap(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None:
        """Load and probe `version`, and send new requests to it. When this raises, the old version serves on.

        Waits until the idle engine's last request has ended; one swap at a time. Raises what `load` and the check raise.
        """
        with self._swapping:
            idle = next(slot for slot in self._slots if slot is not self._active)
            with self._changed:
                self._changed.wait_for(lambda: idle.num_under_way == 0)
            idle.engine.load(folder, _own(version, idle), adapter)
            self._check(idle.engine)
            with self._changed:
                self._active, self._version = idle, version

    def generate(self, requests: Sequence[GenerationRequest]) -> list[tuple[Completion, ...]]:
        """K completions for each request, in order, all of one version, which they name.

        Raises ConfigurationError before the first `swap`, and what the engine raises.
        """
        with self._held() as (slot, version):
            found = slot.engine.generate(requests, _own(version, slot))
        return [tuple(replace(each, version=version) for each in completions) for completions in found]

    def score(
        self, prompts: Sequence[tuple[int, ...]], completions: Sequence[tuple[int, ...]]
    ) -> list[tuple[float, ...]]:
        """Log-probabilities of given tokens, all by one version."""
        with self._held() as (slot, _):
            return slot.engine.score(prompts, completions)

    @contextmanager
    def _held(self) -> Iterator[tuple[_Slot, PolicyVersion]]:
        """The engine that serves now, which keeps its version until the block ends."""
        with self._changed:
            slot, version = self._active, self._version
            if slot is None or version is None:
                raise ConfigurationError("the policy has no weights yet; swap a version in first")
            slot.num_under_way += 1
        try:
            yield slot, version
        finally:
            with self._changed:
                slot.num_under_way -= 1
                self._changed.notify_all()


def finite_probe(prompt_tokens: tuple[int, ...], completion_tokens: tuple[int, ...]) -> Check:
    """A check that all log-probabilities of fixed tokens are finite and below 0, as weights with NaN give none."""

    def check(engine: Generator) -> None:
        (logprobs,) = engine.score([prompt_tokens], [completion_tokens])
        if len(logprobs) != len(completion_tokens) or not all(isfinite(each) and each <= 0 for each in logprobs):
            raise LogprobMismatch(
                f"the new weights give the log-probabilities {tuple(logprobs)} on the probe; the version before serves on"
            )

    return check


def _own(version: PolicyVersion, slot: _Slot) -> PolicyVersion:
    return replace(version, policy=f"{version.policy}.{slot.name}")
