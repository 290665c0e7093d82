"""Whether an answer is right: exact and immediate for numbers, by algebra in separate processes for formulas."""

import atexit
import contextlib
import json
import os
import queue
import select
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from components.environments.math import formulas
from components.environments.math.grading import NeedsFormulas, compare_answers
from components.environments.math.normalization import MAX_CHARACTERS, plain
from components.environments.math.units import units_differ
from components.errors import ExecutionFailed

_NUM_PROCESSES = min(4, os.cpu_count() or 1)
_START_SECONDS = 60.0
_ANSWER_SECONDS = 30.0
"""A pair is limited by CPU time; only on a stalled machine does it take this much wall time."""
_ROOT = Path(__file__).resolve().parents[3]


def verdict(answer: str, expected: str) -> bool:
    r"""Whether `answer` is mathematically equal to `expected`. A pure, thread-safe function.

    An expected number requires a written-out number: a sum with that value does not count. Units must agree where both answers
    have one, and two numbers side by side are not one number. Tuples, intervals and sets are
    compared part by part. math-verify compares everything else within limits of CPU time and memory; what it cannot prove
    equal within them is different.

    **Example** `verdict(r"\frac{2}{4}", "0.5")` and `verdict("1/sqrt(2)", r"\frac{\sqrt{2}}{2}")` hold;
    `verdict("12+7*3", "33")` does not.

    Raises ExecutionFailed if the comparing processes themselves fail, whatever the answer.
    """
    if len(answer) > MAX_CHARACTERS or len(expected) > MAX_CHARACTERS:
        return False
    return not units_differ(answer, expected) and _verdict(plain(answer), plain(expected))


@lru_cache(maxsize=65536)
def _verdict(answer: str, expected: str) -> bool:
    if not answer or not expected:
        return False
    try:
        return compare_answers(answer, expected)
    except NeedsFormulas:
        return _pool().compare(answer, expected)


class FormulaProcesses:
    """A few warm processes that compare formulas; each is started on first use."""

    def __init__(self, num_processes: int = _NUM_PROCESSES) -> None:
        self._owner = os.getpid()
        self._idle: queue.LifoQueue[_FormulaProcess | None] = queue.LifoQueue()
        for _ in range(num_processes):
            self._idle.put(None)

    def compare(self, answer: str, expected: str) -> bool:
        """Whether two plain answers are equal. Raises ExecutionFailed if two processes in a row fail."""
        line = json.dumps([answer, expected]) + "\n"
        process = self._idle.get()
        try:
            for _ in range(2):
                process = process if process is not None and process.is_alive else _FormulaProcess()
                reply = process.ask(line)
                if reply is not None:
                    return reply == "1"
        finally:
            self._idle.put(process if process is not None and process.is_alive else None)
        raise ExecutionFailed(
            f"the processes that compare formulas ended twice at {answer[:60]!r} and {expected[:60]!r}"
        )

    def close(self) -> None:
        """End the idle processes; busy ones end after their answer, when this program has ended."""
        if self._owner != os.getpid():  # a fork shares the pipes of its parent's processes
            return
        with contextlib.suppress(queue.Empty):
            while True:
                if process := self._idle.get_nowait():
                    process.end()


class _FormulaProcess:
    """One process in its own session, without our environment variables; it ends when its standard input is closed."""

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
        """The reply to one pair; None if the process is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError:
            self.end()
            return None
        return self._reply(_ANSWER_SECONDS)

    def end(self) -> None:
        """Kill and reap the process."""
        self.is_alive = False
        with contextlib.suppress(OSError), self._process:
            self._process.kill()

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
