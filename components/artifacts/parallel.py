"""Requests side by side: a store answers one at a time in milliseconds, and many in little more."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

NUM_THREADS = 16
"""As many as the S3 client keeps connections."""


def in_parallel(
    work: Callable[[A], B],
    arguments: Iterable[A],
    *,
    done: Callable[[int], None] = lambda count: None,
    num_threads: int = NUM_THREADS,
) -> list[B]:
    """`work` of every argument, in their order; `done` hears how many there are so far. The first error ends it."""
    results: list[B] = []
    with ThreadPoolExecutor(max_workers=num_threads) as pool:
        futures = [pool.submit(work, argument) for argument in arguments]
        try:
            for future in futures:
                results.append(future.result())
                done(len(results))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return results
