"""Which replica a request goes to: the one that has its prompt cached, unless others have much less to do.

Requests wait here and not in the servers, so a slow replica draws fewer of them and a dead one loses few.
"""

import hashlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Executor, Future, wait
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
    """The state of the replicas that serve one model: which are up, and how much each has to do. Thread-safe, no I/O."""

    def __init__(self, urls: Sequence[str], *, places: int, slack: int = AFFINITY_SLACK) -> None:
        """`places` is how many requests one replica may have at once."""
        self._places = places
        self._slack = slack
        self._outstanding = dict.fromkeys(urls, 0)
        self._down = dict.fromkeys(urls, "not asked yet")
        self._changed = threading.Condition()

    @property
    def up(self) -> tuple[str, ...]:
        """The replicas that take requests, in the order of the configuration."""
        with self._changed:
            return tuple(url for url in self._outstanding if url not in self._down)

    @property
    def down(self) -> Mapping[str, str]:
        """The other ones, and why."""
        with self._changed:
            return dict(self._down)

    @property
    def busy(self) -> tuple[str, ...]:
        """The replicas that owe an answer."""
        with self._changed:
            return tuple(url for url, number in self._outstanding.items() if number and url not in self._down)

    def set_up(self, url: str) -> None:
        """`url` takes requests from now on."""
        with self._changed:
            self._down.pop(url, None)
            self._changed.notify_all()

    def set_down(self, url: str, why: str) -> None:
        """`url` takes no more requests."""
        with self._changed:
            self._down[url] = why
            self._changed.notify_all()

    def failed(self, url: str, why: str) -> None:
        """`url` is down because of `why`, unless a reason is known already, from which this one follows."""
        with self._changed:
            self._down.setdefault(url, why)
            self._changed.notify_all()

    def take(self, key: bytes, tried: Collection[str] = ()) -> str:
        """A place at a replica outside `tried`; waits while all are full. Raises EngineUnavailable when none is up."""
        with self._changed:
            while True:
                open_to_it = {
                    url: number
                    for url, number in self._outstanding.items()
                    if url not in self._down and url not in tried
                }
                if not open_to_it:
                    raise EngineUnavailable(self._why_none())
                url = chosen_replica(open_to_it, key, places=self._places, slack=self._slack)
                if url is not None:
                    self._outstanding[url] += 1
                    return url
                self._changed.wait()

    def give_back(self, url: str) -> None:
        """The place is free again."""
        with self._changed:
            self._outstanding[url] -= 1
            assert self._outstanding[url] >= 0, f"{url} was given back more often than taken"
            self._changed.notify()

    def _why_none(self) -> str:
        reasons = [f"{url}: {why}" for url, why in self._down.items()] or ["all have failed at this request"]
        return "no vLLM server is left to ask: " + "; ".join(reasons)


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


def dispatched(
    executor: Executor, replicas: Replicas, jobs: Sequence[Job], send: Callable[[str, Job], Answer]
) -> list[Answer]:
    """`send(url, job)` for every job, in order. A job whose replica fails is sent to another one; finished ones stay.

    Raises EngineUnavailable when no replica is left, and whatever else `send` raises, after the jobs under way have ended.
    """
    stop = threading.Event()
    futures = [executor.submit(_sent, replicas, job, send, stop) for job in jobs]
    try:
        wait(futures, return_when=FIRST_EXCEPTION)
    finally:
        stop.set()
        for future in futures:
            future.cancel()
    wait(futures)
    for error in map(_error_of, futures):
        if error is not None:
            raise error
    return [future.result() for future in futures]


class _Stopped(Exception):
    """Another job has failed for good, so this one was not begun."""


def _sent(replicas: Replicas, job: Job, send: Callable[[str, Job], Answer], stop: threading.Event) -> Answer:
    tried: set[str] = set()
    while True:
        url = replicas.take(job.key, tried)
        try:
            if stop.is_set():
                raise _Stopped
            return send(url, job)
        except ReplicaFailed as error:
            tried.add(url)
            replicas.failed(url, str(error))
        finally:
            replicas.give_back(url)


def _error_of(future: "Future[Answer]") -> BaseException | None:
    if future.cancelled():
        return None
    error = future.exception()
    return None if isinstance(error, _Stopped) else error
