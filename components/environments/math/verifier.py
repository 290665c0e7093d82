"""Whether an answer is right: exact and immediate for numbers, by algebra in processes of their own for formulas."""

import atexit
import contextlib
import json
import os
import queue
import select
import subprocess
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from components.environments.math import formulas
from components.environments.math.judging import NeedsFormulas, compared, undecided
from components.environments.math.spelling import MAX_CHARACTERS, plain
from components.errors import ExecutionFailed

_NUM_PROCESSES = min(4, os.cpu_count() or 1)
_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
"""A pair is limited by CPU time; this much wall time passes only on a machine that stands still."""
_ROOT = Path(__file__).resolve().parents[3]


def verdict(answer: str, expected: str) -> bool:
    r"""Whether `answer` is equal to `expected` as mathematics. A pure function of its arguments; any thread may call it.

    An expected number asks for a written-out number: a sum that has its value is no answer. Tuples, intervals and sets are
    compared part by part. Everything else is compared by math-verify, within limits of CPU time and memory: what it cannot
    show to be equal within them is not.

    **Example** `verdict(r"\frac{2}{4}", "0.5")` and `verdict("1/sqrt(2)", r"\frac{\sqrt{2}}{2}")` hold;
    `verdict("12+7*3", "33")` does not.

    Raises ExecutionFailed when the comparing processes themselves fail, which says nothing about the answer.
    """
    if len(answer) > MAX_CHARACTERS or len(expected) > MAX_CHARACTERS:
        return False
    return _verdict(plain(answer), plain(expected))


@lru_cache(maxsize=65536)
def _verdict(answer: str, expected: str) -> bool:
    if not answer or not expected:
        return False
    try:
        return compared(answer, expected, formulas=undecided)
    except NeedsFormulas:
        return _pool().compare(answer, expected)


class FormulaProcesses:
    """A few warm processes that compare formulas; each is started when it is first needed."""

    def __init__(self, num_processes: int = _NUM_PROCESSES) -> None:
        self._owner = os.getpid()
        self._idle: queue.LifoQueue[_FormulaProcess | None] = queue.LifoQueue()
        for _ in range(num_processes):
            self._idle.put(None)

    @property
    def is_mine(self) -> bool:
        """Whether this very process started them: a fork must not share their pipes."""
        return self._owner == os.getpid()

    def compare(self, answer: str, expected: str) -> bool:
        """Whether two plain answers are equal. Raises ExecutionFailed when two processes in a row failed at them."""
        line = json.dumps([answer, expected]) + "\n"
        for _ in range(2):
            with self._borrowed() as process:
                reply = process.ask(line)
            if reply is not None:
                return reply == "1"
        raise ExecutionFailed(
            f"the processes that compare formulas ended twice at {answer[:60]!r} and {expected[:60]!r}"
        )

    def close(self) -> None:
        """End the idle processes; those at work end when they have answered and this program has ended."""
        while True:
            try:
                process = self._idle.get_nowait()
            except queue.Empty:
                return
            if process is not None and self.is_mine:
                process.end()

    @contextlib.contextmanager
    def _borrowed(self) -> "Iterator[_FormulaProcess]":
        process = self._idle.get()
        try:
            process = process or _FormulaProcess()
            yield process
        finally:
            self._idle.put(process if process is not None and process.is_alive else None)


class _FormulaProcess:
    """One process in a session of its own, without our environment variables; it ends when its standard input does."""

    def __init__(self) -> None:
        start = (
            f"import sys; sys.path.insert(0, {str(_ROOT)!r}); import runpy; runpy.run_module({formulas.__name__!r}, "
        )
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-c", start + "run_name='__main__')"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,
        )
        self.is_alive = True
        if self._reply(_START_SECONDS) != "ready":
            raise ExecutionFailed("the process that compares formulas did not start")

    def ask(self, line: str) -> str | None:
        """The reply to one pair, None when the process is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError:
            self.end()
            return None
        return self._reply(_ANSWER_SECONDS)

    def end(self) -> None:
        """Kill the process and take its exit status."""
        self.is_alive = False
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def _reply(self, seconds: float) -> str | None:
        assert self._process.stdout is not None
        readable, _, _ = select.select([self._process.stdout], [], [], seconds)
        reply = self._process.stdout.readline().decode().strip() if readable else ""
        if not reply:
            self.end()
            return None
        return reply


@lru_cache(maxsize=1)
def _pool_of(pid: int) -> FormulaProcesses:
    pool = FormulaProcesses()
    atexit.register(pool.close)
    return pool


def _pool() -> FormulaProcesses:
    return _pool_of(os.getpid())
