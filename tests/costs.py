"""What pieces of work cost: CPU time and memory, measured in a child of its own that no piece can outlive."""

import gc
import json
import os
import re
import resource
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Piece = tuple[str, Callable[[], object]]
"""A name, and the work."""

MAX_CPU_SECONDS = 0.5
MAX_BYTES = 256 << 20
_ENDED_AFTER_CPU_SECONDS = 2 * MAX_CPU_SECONDS
"""The least after which a piece is ended; one that is allowed more is ended after twice that."""
_MOST_ATTEMPTS = 3
_MOST_SLOWNESS = 4.0
_YARDSTICK_CPU_SECONDS = 0.024
"""What `measure_slowness` runs takes this on the machine for which bounds are chosen."""
_CHILD_BYTES = 4 * MAX_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """The CPU time of the dearest piece and its name, and by how much all pieces together raised the peak of memory.

    `failed` is the first piece that raised or did not end, with its error.
    """

    cpu_seconds: float = 0.0
    dearest: str = ""
    num_bytes: int = 0
    num_pieces: int = 0
    failed: str = ""


def cost_of(pieces: Iterable[Piece], *, most_cpu_seconds: float = MAX_CPU_SECONDS) -> Cost:
    """What the pieces cost, one after the other, in a fork of this process: what they leave behind dies with it.

    The first one above `most_cpu_seconds` is the last.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            _run(pieces, writing, most_cpu_seconds)
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8", errors="replace") as lines:
        told = [json.loads(line) for line in lines]
    _, status = os.waitpid(child, 0)
    return _cost(told, os.waitstatus_to_exitcode(status))


def measure_slowness() -> float:
    """How many times slower than the machine for which bounds are chosen this one is now, from 1 to 4."""
    started = time.process_time()
    re.search("(?:ab|c)+?d", "ab" * 1000)
    sum(number & 7 for number in range(200_000))
    return min(max(1.0, (time.process_time() - started) / _YARDSTICK_CPU_SECONDS), _MOST_SLOWNESS)


def assert_cheap(pieces: Iterable[Piece], *, most_cpu_seconds: float = MAX_CPU_SECONDS) -> Cost:
    """The cost of the pieces, none of which raises, takes more than `most_cpu_seconds` of CPU or more than 256 MiB.

    The same work costs more on a slow or busy machine: what is too dear is measured again, and as much more is allowed as the
    machine is slower.
    """
    measured = list(pieces)
    allowed = most_cpu_seconds
    for _ in range(_MOST_ATTEMPTS):
        cost = cost_of(measured, most_cpu_seconds=allowed)
        if not cost.failed and cost.cpu_seconds <= allowed:
            break
        allowed = most_cpu_seconds * measure_slowness()
    assert not cost.failed, cost
    assert cost.num_pieces > 0, "nothing was measured"
    assert cost.cpu_seconds <= allowed, (cost, allowed)
    assert cost.num_bytes <= MAX_BYTES, cost
    return cost


def _run(pieces: Iterable[Piece], writing: int, most_cpu_seconds: float) -> None:
    """The life of the child: a line before each piece and one after it, with the peak of memory so far.

    What this process held before is kept from the collector: a piece would pay for a walk through all of it.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    gc.freeze()
    with open("/proc/self/statm") as numbers:
        address_space = int(numbers.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (address_space + _CHILD_BYTES,) * 2)
    at_start = _peak_bytes()
    for name, work in pieces:
        _tell(writing, {"begun": name})
        signal.setitimer(signal.ITIMER_PROF, max(_ENDED_AFTER_CPU_SECONDS, 2 * most_cpu_seconds))
        before = _cpu_seconds()
        error = ""
        try:
            work()
        except BaseException as raised:  # the child's border: every error is a finding of the measurement
            error = f"{type(raised).__name__}: {str(raised)[:200]}"
        spent = _cpu_seconds() - before
        _tell(writing, {"ended": name, "cpu": spent, "bytes": _peak_bytes() - at_start, "error": error})
        if spent > most_cpu_seconds:
            return


def _tell(writing: int, record: dict[str, object]) -> None:
    os.write(writing, f"{json.dumps(record)}\n".encode())


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _cost(told: list[dict[str, object]], exit_code: int) -> Cost:
    ended = [record for record in told if "ended" in record]
    dearest = max(ended, key=lambda record: float(str(record["cpu"])), default=None)
    failed = next((f"{record['ended']}: {record['error']}" for record in ended if record["error"]), "")
    if exit_code:
        failed = f"{told[-1].get('begun', 'the start')}: ended by {exit_code}, for its CPU time or its memory"
    return Cost(
        cpu_seconds=float(str(dearest["cpu"])) if dearest else 0.0,
        dearest=str(dearest["ended"]) if dearest else "",
        num_bytes=max((int(str(record["bytes"])) for record in ended), default=0),
        num_pieces=len(ended),
        failed=failed,
    )
