"""The servers of one model as one: looked at, given weights, asked, given up and taken back."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from components.config import VllmConfig
from components.errors import EngineUnavailable, StaleEngine
from components.generation.vllm.health import HealthWatch
from components.generation.vllm.loading import Loading, Wanted
from components.generation.vllm.router import Job, Replicas, dispatched
from components.generation.vllm.transport import ReplicaFailed, Transport
from components.generation.vllm.wire import GENERATE

Answer = TypeVar("Answer")
_SERVES = "it serves "
_LOOK_AGAIN_SECONDS = 5.0
"""Between two looks at servers that are down."""


class Fleet:
    """Those of `urls` that serve `model`; the others are left alone. `start_command` is what an error advises."""

    def __init__(
        self, config: VllmConfig, *, model: str, urls: Sequence[str], start_command: str, transport: Transport
    ) -> None:
        self._config = config
        self._model = model
        self._start_command = start_command
        self._transport = transport
        self._urls = tuple(dict.fromkeys(url.rstrip("/") for url in urls))
        self.replicas = Replicas(self._urls, places=config.max_requests_at_once)
        num_threads = max(1, config.max_requests_at_once * len(self._urls))
        self._executor = ThreadPoolExecutor(num_threads, thread_name_prefix=f"vllm-{model}")
        self._wanted: Wanted | None = None
        self._looking = threading.Lock()
        self._last_look = 0.0
        self.max_model_tokens = 0
        """Longest prompt and answer that the servers take; 0 before the first look."""

    def want(self, wanted: Wanted) -> None:
        """Make every server hold `wanted`. Raises `nobody()` when none does, ConfigurationError when one cannot."""
        with self._looking:
            self._wanted = wanted
            self._look_at(self._urls)
        if not self.replicas.up:
            raise self.nobody()

    def check(self) -> None:
        """Pass when a server serves the model, whatever weights it holds. Raises `nobody()`."""
        with self._looking:
            found = [self._serves(url) for url in self._urls]
        if not any(found):
            raise self.nobody()

    def look_again(self) -> None:
        """Take servers back that were down and answer again; they are given the weights first."""
        down = tuple(self.replicas.down)
        if down and time.monotonic() - self._last_look > _LOOK_AGAIN_SECONDS and self._looking.acquire(blocking=False):
            try:
                self._look_at(down)
            finally:
                self._looking.release()

    def run(self, jobs: Sequence[Job], read: Callable[[str, Any], Answer]) -> list[Answer]:
        """`read(url, answer)` for every job, in order; a failed job is sent to another server. Raises `nobody()`."""
        self.look_again()
        try:
            with self._watch():
                return dispatched(self._executor, self.replicas, jobs, lambda url, job: read(url, self._ask(url, job)))
        except EngineUnavailable as error:
            raise self.nobody() from error

    def run_everywhere(self, jobs: Sequence[Job], read: Callable[[str, Any], Answer]) -> dict[str, list[Answer]]:
        """The same at each server that is up, by its address. One that fails is left out."""
        self.look_again()
        found = {}
        for url in self.replicas.up:
            try:
                self._transport.call(url, "/health", timeout_seconds=self._config.health_timeout_seconds)
                found[url] = [read(url, self._ask(url, job)) for job in jobs]
            except ReplicaFailed as error:
                self.replicas.set_down(url, str(error))
        if not found:
            raise self.nobody()
        return found

    def nobody(self) -> EngineUnavailable | StaleEngine:
        """The error for a moment when no server is up: a stale engine where they answer but serve something else."""
        down = self.replicas.down
        reasons = "; ".join(f"{url}: {why}" for url, why in down.items()) or "none is known"
        message = (
            f"no vLLM server of {self._model!r} is left ({reasons}). Start servers with `{self._start_command}`, or name "
            "running ones in generation.vllm.urls"
        )
        only_others = down and all(why.startswith(_SERVES) for why in down.values())
        return StaleEngine(message) if only_others else EngineUnavailable(message)

    def close(self) -> None:
        """Give the threads back. The servers stay."""
        self._executor.shutdown(cancel_futures=True)

    def _look_at(self, urls: Sequence[str]) -> None:
        list(self._executor.map(self._prepare, urls))
        self._last_look = time.monotonic()

    def _prepare(self, url: str) -> None:
        """Give `url` what is wanted; it is up then, and down otherwise."""
        assert self._wanted is not None, "nothing is wanted yet"
        if self._serves(url):
            try:
                Loading(self._transport, url, config=self._config).hold(self._wanted)
            except ReplicaFailed as error:
                self.replicas.set_down(url, str(error))
                return
            self.replicas.set_up(url)

    def _serves(self, url: str) -> bool:
        """Whether `url` answers and serves the model; it is down otherwise."""
        try:
            cards = Loading(self._transport, url, config=self._config).cards()
        except ReplicaFailed as error:
            self.replicas.set_down(url, str(error))
            return False
        if self._model not in cards.models:
            self.replicas.set_down(url, _SERVES + ", ".join(cards.models))
            return False
        self.max_model_tokens = cards.max_model_tokens
        return True

    def _watch(self) -> HealthWatch:
        return HealthWatch(self.replicas, self._transport, timeout_seconds=self._config.health_timeout_seconds)

    def _ask(self, url: str, job: Job) -> Any:
        return self._transport.call(url, GENERATE, job.body, timeout_seconds=self._config.request_timeout_seconds)
