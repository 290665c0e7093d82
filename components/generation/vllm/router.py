"""Routing of requests to replicas: each goes where its prompt is cached, unless other replicas have much less to do.

Requests queue here and not in the servers, so a slow replica takes fewer of them and a dead one loses few.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from components.errors import EngineUnavailable
from components.generation.vllm.transport import ReplicaFailed

Answer = TypeVar("Answer")
AFFINITY_SLACK = 16
"""How many more requests than the idlest replica a prompt's home may have before the idlest takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request, to a route of a server. Jobs of equal `key` share a prompt, and so a replica's cache."""

    key: bytes
    body: bytes
    path: str


class Replicas:
    """The replicas of one model: which of them take requests, and the requests under way. Lives in one event loop."""

    def __init__(
        self, urls: Sequence[str], *, places: int, slack: int = AFFINITY_SLACK, near: Collection[str] = ()
    ) -> None:
        """`places` is the maximum number of concurrent requests per replica; those `near` are on this host."""
        self._near = frozenset(near)
        self._places = places
        self._slack = slack
        self._requests: dict[str, set[asyncio.Timeout]] = {url: set() for url in urls}
        self.down = dict.fromkeys(urls, "not contacted yet")
        """The replicas that take no requests, and why."""
        self._changed = asyncio.Event()

    def keep(self, urls: Sequence[str], near: Collection[str]) -> None:
        """Have these replicas alone: a new one is not in use before `set_up`."""
        self._near = frozenset(near)
        for url in urls:
            if url not in self._requests:
                self._requests[url], self.down[url] = set(), "not contacted yet"
        for url in [each for each in self._requests if each not in urls]:
            self.give_up(url, "it is gone")
            del self._requests[url], self.down[url]

    @property
    def up(self) -> tuple[str, ...]:
        """The replicas that take requests, in the order of the configuration."""
        return tuple(url for url in self._requests if url not in self.down)

    @property
    def busy(self) -> tuple[str, ...]:
        """The replicas in use that have requests under way."""
        return tuple(url for url in self.up if self._requests[url])

    def set_up(self, url: str) -> None:
        """Send requests to `url` from now on."""
        self.down.pop(url, None)
        self._wake()

    def set_down(self, url: str, why: str) -> None:
        """Send no more requests to `url`; those under way may still be answered."""
        if url in self._requests:
            self.down[url] = why
        self._wake()

    def give_up(self, url: str, why: str) -> None:
        """Send no more requests to `url`, and resend those under way to other replicas."""
        self.set_down(url, why)
        for request in self._requests[url]:
            if not request.expired():
                request.reschedule(0.0)

    async def dispatch(self, jobs: Sequence[Job], send: Callable[[str, Job], Awaitable[Answer]]) -> list[Answer]:
        """`send(url, job)` for every job, in order. A job whose replica fails goes to another; finished ones are kept.

        Raises EngineUnavailable when no replica is left, and any other error of `send`, after cancelling all other jobs.
        """
        answers: dict[int, Answer] = {}
        left = iter(enumerate(jobs))

        async def work() -> None:
            for number, job in left:
                answers[number] = await self._send(job, send)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(len(jobs), max(1, self._places * len(self._requests)))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return [answers[number] for number in range(len(jobs))]

    async def _send(self, job: Job, send: Callable[[str, Job], Awaitable[Answer]]) -> Answer:
        tried: set[str] = set()
        while True:
            url = await self._free_replica(job.key, tried)
            request, under_way = asyncio.timeout(None), self._requests[url]
            under_way.add(request)
            try:
                async with request:
                    return await send(url, job)
            except (ReplicaFailed, TimeoutError) as error:
                tried.add(url)
                self.set_down(url, self.down.get(url, str(error)))  # the first reason caused the others
            finally:
                under_way.remove(request)
                self._wake()

    async def _free_replica(self, key: bytes, tried: Collection[str]) -> str:
        """The replica for a job of `key`, outside `tried`; waits while all are full."""
        while True:
            outstanding = {url: len(self._requests[url]) for url in self.up if url not in tried}
            if not outstanding:
                reasons = [f"{url}: {why}" for url, why in self.down.items()] or [
                    "every replica failed on this request"
                ]
                raise EngineUnavailable("no vLLM server is left: " + "; ".join(reasons))
            url = choose_replica(outstanding, key, places=self._places, slack=self._slack, near=self._near)
            if url is not None:
                return url
            await self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def choose_replica(
    outstanding: Mapping[str, int], key: bytes, *, places: int, slack: int, near: Collection[str] = ()
) -> str | None:
    """The replica for a job of `key`; None when all are full.

    A key's home is the replica with the smallest hash (rendezvous hashing), so that only the keys of a dead replica move; of
    those that are `near`, if any is.

    **Example** outstanding {a: 20, b: 3} and a key whose home is a: with slack 16, b; with slack 17, a.
    """
    homes = [url for url in outstanding if url in near] or outstanding
    home = min(homes, key=lambda url: hashlib.blake2b(key + url.encode(), digest_size=8).digest())
    idlest = min(outstanding, key=lambda url: outstanding[url])
    if outstanding[home] < places and outstanding[home] <= outstanding[idlest] + slack:
        return home
    return idlest if outstanding[idlest] < places else None
