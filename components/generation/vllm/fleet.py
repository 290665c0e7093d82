"""The servers of one model used as one: checked, loaded with weights, sent requests, taken out of use and taken back."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from components.config import VllmConfig
from components.errors import EngineUnavailable, StaleEngine, TroupeError
from components.generation.base import SignFiles
from components.generation.vllm.loaded_weights import ServedVersion
from components.generation.vllm.router import Job, Replicas
from components.generation.vllm.transport import ReplicaFailed, Transport
from components.generation.vllm.weight_loader import Loading

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Servers:
    """Addresses of servers; those `near` are on this host."""

    urls: tuple[str, ...]
    near: frozenset[str] = frozenset()


_SERVES = "it serves "
_LOOK_AGAIN_SECONDS = 5.0
_FIND_AGAIN_SECONDS = 1.0
"""Between two attempts to reach servers that are down."""
_HEALTH_CHECK_SECONDS = 2.0
"""Between two health checks of a busy server: one that hangs is given up long before its requests time out."""


class Fleet:
    """Those of the servers that serve `model`; the others are left alone. Errors advise `start_command`.

    `find` tells which there are: it is asked before weights are loaded, and while one is away. Where it tells of none, they are
    waited for, `patience_seconds` at most: who starts lost ones anew needs as long. Lives in one event loop.
    """

    def __init__(
        self,
        config: VllmConfig,
        *,
        model: str,
        find: Callable[[], Servers],
        start_command: str,
        transport: Transport,
        sign: SignFiles = lambda folder: (),
        patience_seconds: float = 0.0,
    ) -> None:
        self._config = config
        self._model = model
        self._start_command = start_command
        self._transport = transport
        self._sign = sign
        self._find = find
        self._patience_seconds = patience_seconds
        self.replicas = Replicas((), places=config.max_requests_at_once)
        self._wanted: ServedVersion | None = None
        self._looking = asyncio.Lock()
        self._last_look = 0.0
        self.max_model_tokens = 0
        """Longest prompt plus answer that the servers accept; 0 until they are contacted."""

    async def want(self, wanted: ServedVersion | None) -> None:
        """Make every server hold `wanted`; None only checks that a server serves the model.

        Raises `no_server_error()` when no server is up afterwards, ConfigurationError when one cannot load `wanted`.
        """
        async with self._looking:
            self._wanted = wanted or self._wanted
            deadline = time.monotonic() + self._patience_seconds
            while not await self._find_servers() and time.monotonic() < deadline:
                await asyncio.sleep(_FIND_AGAIN_SECONDS)
            await self._look_at((*self.replicas.up, *self.replicas.down))
        if not self.replicas.up:
            raise self.no_server_error()

    async def run(self, jobs: Sequence[Job], read: Callable[[str, Any], Answer]) -> list[Answer]:
        """`read(url, answer)` for every job, in order; a failed job is sent to another server.

        Raises `no_server_error()`, and what `read` raises.
        """

        async def send(url: str, job: Job) -> Answer:
            return read(url, await self._ask(url, job))

        await self._look_again()
        watch = asyncio.create_task(self._watch())
        try:
            return await self.replicas.dispatch(jobs, send)
        except EngineUnavailable as error:
            raise self.no_server_error() from error
        finally:
            watch.cancel()

    async def run_everywhere(self, job: Job, read: Callable[[str, Any], Answer]) -> dict[str, Answer]:
        """`read(url, answer)` of one job from each server that is up, by URL. A server that fails is left out."""
        await self._look_again()
        found = {}
        for url in self.replicas.up:
            try:
                await self._check_health(url)
                found[url] = read(url, await self._ask(url, job))
            except ReplicaFailed as error:
                self.replicas.set_down(url, str(error))
        if not found:
            raise self.no_server_error()
        return found

    def no_server_error(self) -> EngineUnavailable | StaleEngine:
        """The error when no server is up; StaleEngine if all that are down answered but serve other models."""
        down = self.replicas.down
        reasons = "; ".join(f"{url}: {why}" for url, why in down.items()) or "none is known"
        message = (
            f"no vLLM server of {self._model!r} is left ({reasons}). Start servers with `{self._start_command}`, or name "
            "running ones in generation.vllm.urls"
        )
        only_others = down and all(why.startswith(_SERVES) for why in down.values())
        return StaleEngine(message) if only_others else EngineUnavailable(message)

    async def _look_again(self) -> None:
        """Take servers back that were down and answer again, after loading the weights."""
        is_due = self.replicas.down and time.monotonic() - self._last_look > _LOOK_AGAIN_SECONDS
        if is_due and not self._looking.locked():
            async with self._looking:
                await self._find_servers()
                await self._look_at(tuple(self.replicas.down))

    async def _find_servers(self) -> bool:
        """Whether there are any."""
        found = await asyncio.to_thread(self._find)
        self.replicas.keep(found.urls, found.near)
        return bool(found.urls)

    async def _look_at(self, urls: Iterable[str]) -> None:
        ends = await asyncio.gather(*map(self._prepare, urls), return_exceptions=True)
        self._last_look = time.monotonic()
        for error in filter(None, ends):
            raise error

    async def _prepare(self, url: str) -> None:
        """Load the wanted weights into `url` and set it up, or down if it fails or serves another model."""
        loading = Loading(self._transport, url, config=self._config, sign=self._sign)
        try:
            cards = await loading.cards()
            if self._model not in cards.models:
                self.replicas.set_down(url, _SERVES + ", ".join(cards.models))
                return
            self.max_model_tokens = cards.max_model_tokens
            if self._wanted is not None:
                await loading.ensure(self._wanted)
        except ReplicaFailed as error:
            self.replicas.set_down(url, str(error))
        else:
            self.replicas.set_up(url)

    async def _watch(self) -> None:
        """Give up busy servers that are not healthy, until cancelled."""

        async def check(url: str) -> None:
            try:
                await self._check_health(url)
            except TroupeError as error:
                self.replicas.give_up(url, f"not healthy: {error}")

        while True:
            await asyncio.sleep(_HEALTH_CHECK_SECONDS)
            await asyncio.gather(*map(check, self.replicas.busy))

    async def _check_health(self, url: str) -> None:
        await self._transport.call(url, "/health", timeout_seconds=self._config.health_timeout_seconds)

    async def _ask(self, url: str, job: Job) -> Any:
        return await self._transport.call(url, job.path, job.body, timeout_seconds=self._config.request_timeout_seconds)
