"""Concurrent requests: a store takes milliseconds for one, and little more for many."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

NUM_THREADS = 16
"""The number of connections of the S3 client."""


def in_parallel(
    work: Callable[[A], B],
    arguments: Iterable[A],
    *,
    done: Callable[[int], None] = lambda count: None,
    num_threads: int = NUM_THREADS,
) -> list[B]:
    """`work` of every argument, in order; `done` is called with the number of results. The first error cancels the rest."""
    results: list[B] = []
    with ThreadPoolExecutor(max_workers=num_threads) as pool:
        for result in pool.map(work, arguments):
            results.append(result)
            done(len(results))
    return results
