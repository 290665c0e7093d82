"""Processes of a benchmark that end with it, however it ends: by Ctrl-C, by SIGTERM, or by SIGKILL, when it can do nothing."""

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import closing, contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import TypeVar

T = TypeVar("T")
LOOK_UP_SECONDS = 0.5


@contextmanager
def processes_ended_together(num_processes: int) -> Iterator[ProcessPoolExecutor]:
    """Runs each call in a fresh process, at most so many at once. An exception that leaves the block ends them at once.

    Whoever wants the other calls to go on when one has failed reads `future.exception()` inside the block.

    **Example**

        with processes_ended_together(2) as processes:
            for future in as_they_end([processes.submit(trained, order, home) for order in missing]):
                print(future.result())
    """
    context = get_context("spawn")
    reader, writer = context.Pipe(duplex=False)
    processes = ProcessPoolExecutor(
        num_processes, mp_context=context, max_tasks_per_child=1, initializer=end_with_writer, initargs=(reader,)
    )
    with closing(reader), closing(writer):
        try:
            yield processes
        except BaseException:
            writer.close()
            processes.shutdown(cancel_futures=True)
            raise
        processes.shutdown()


def as_they_end(futures: Iterable[Future[T]]) -> Iterator[Future[T]]:
    """Each of them once it is done.

    It looks up now and then: of signals that come together all may be taken by another thread, which wakes up nobody.
    """
    pending = set(futures)
    while pending:
        done, pending = wait(pending, timeout=LOOK_UP_SECONDS, return_when=FIRST_COMPLETED)
        yield from done


def end_with_writer(reader: Connection) -> None:
    """End this process as soon as the other end of `reader` is closed, which the kernel does for a process that is killed.

    It ignores Ctrl-C, which a terminal sends to all: the process that started it decides.
    """

    def watch() -> None:
        reader.poll(None)
        os.kill(os.getpid(), signal.SIGKILL)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch, daemon=True).start()


def exit_when_told() -> None:
    """Let the first of Ctrl-C, SIGTERM and SIGHUP raise SystemExit in the main thread.

    Later ones do nothing: they would interrupt the end of what runs, and a group's signal may come twice.
    """
    told: list[int] = []

    def exit_at_first(number: int, frame: object) -> None:
        told.append(number)
        if len(told) == 1:
            sys.exit(128 + number)

    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, exit_at_first)
