"""Which replica a request goes to: the one that has its prompt cached, unless others have much less to do.

Requests wait here and not in the servers, so a slow replica draws fewer of them and a dead one loses few.
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
"""Requests by which a prompt's own replica may be ahead of the idlest one before another takes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One request. Jobs of equal `key` share a prompt, and so a replica's cache."""

    key: bytes
    body: bytes


class Replicas:
    """The state of the replicas that serve one model: which are up, and what each is asked. Lives in one event loop."""

    def __init__(self, urls: Sequence[str], *, places: int, slack: int = AFFINITY_SLACK) -> None:
        """`places` is how many requests one replica may have at once."""
        self._places = places
        self._slack = slack
        self._asked: dict[str, set[asyncio.Timeout]] = {url: set() for url in urls}
        """The requests under way; each ends at once when its replica is given up."""
        self._down = dict.fromkeys(urls, "not asked yet")
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def up(self) -> tuple[str, ...]:
        """The replicas that take requests, in the order of the configuration."""
        return tuple(url for url in self._asked if url not in self._down)

    @property
    def down(self) -> Mapping[str, str]:
        """The other ones, and why."""
        return dict(self._down)

    @property
    def busy(self) -> tuple[str, ...]:
        """The replicas that owe an answer."""
        return tuple(url for url in self.up if self._asked[url])

    def set_up(self, url: str) -> None:
        """`url` takes requests from now on."""
        self._down.pop(url, None)
        self._wake()

    def set_down(self, url: str, why: str) -> None:
        """`url` takes no more requests; those under way there may still be answered."""
        self._down[url] = why
        self._wake()

    def give_up(self, url: str, why: str) -> None:
        """`url` takes no more requests, and those under way there are sent elsewhere."""
        self.set_down(url, why)
        for request in self._asked[url]:
            if not request.expired():
                request.reschedule(0.0)

    async def dispatch(self, jobs: Sequence[Job], send: Callable[[str, Job], Awaitable[Answer]]) -> list[Answer]:
        """`send(url, job)` for every job, in order. A job whose replica fails is sent to another one; finished ones stay.

        Raises EngineUnavailable when no replica is left, and whatever else `send` raises, after ending all other jobs.
        """
        answers: dict[int, Answer] = {}
        left = iter(enumerate(jobs))

        async def work() -> None:
            for number, job in left:
                answers[number] = await self._sent(job, send)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(len(jobs), self._places * len(self._asked))):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if len(answers) < len(jobs):
            raise EngineUnavailable("no vLLM server is known")
        return [answers[number] for number in range(len(jobs))]

    async def _sent(self, job: Job, send: Callable[[str, Job], Awaitable[Answer]]) -> Answer:
        tried: set[str] = set()
        while True:
            request = asyncio.timeout(None)
            url = await self._place(job.key, tried, request)
            try:
                async with request:
                    return await send(url, job)
            except (ReplicaFailed, TimeoutError) as error:
                tried.add(url)
                self.set_down(url, self._down.get(url, str(error)))  # the first reason is the cause of the others
            finally:
                self._asked[url].remove(request)
                self._wake()

    async def _place(self, key: bytes, tried: Collection[str], request: asyncio.Timeout) -> str:
        """A replica outside `tried` that takes `request`; waits while all are full."""
        while True:
            outstanding = {url: len(self._asked[url]) for url in self.up if url not in tried}
            if not outstanding:
                reasons = [f"{url}: {why}" for url, why in self._down.items()] or ["all have failed at this request"]
                raise EngineUnavailable("no vLLM server is left to ask: " + "; ".join(reasons))
            url = chosen_replica(outstanding, key, places=self._places, slack=self._slack)
            if url is not None:
                self._asked[url].add(request)
                return url
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def chosen_replica(outstanding: Mapping[str, int], key: bytes, *, places: int, slack: int) -> str | None:
    """The replica for a job of `key`; None when all are full.

    A key's own replica is the one with the smallest hash (rendezvous hashing), so that a replica's death moves its own keys
    alone.

    **Example** outstanding {a: 20, b: 3} and a key of a's: with slack 16, b; with slack 17, a.
    """
    home = min(outstanding, key=lambda url: hashlib.blake2b(key + url.encode(), digest_size=8).digest())
    idlest = min(outstanding, key=lambda url: outstanding[url])
    if outstanding[home] < places and outstanding[home] <= outstanding[idlest] + slack:
        return home
    return idlest if outstanding[idlest] < places else None
