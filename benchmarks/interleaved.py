"""Two ways to compute the same, in turns: CPU seconds, the memory that each adds, and how far apart they end."""

import multiprocessing
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

Compute = Callable[[], Sequence[Any]]
"""Computes once; returns tensors, values and gradients."""


def measure(ways: Mapping[str, Compute], repeats: int) -> dict[str, Any]:
    """`seconds` and `mib` by way, medians of `repeats` rounds in which each computes once, and `apart`, the largest relative
    distance of the second way's tensors from the first's.

    A machine's other work slows the ways of a round alike; the first round, which warms up, is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    found: dict[str, Sequence[Any]] = {}
    mib = {name: _measure_peak(compute) for name, compute in ways.items()}
    for _ in range(repeats + 1):
        for name, compute in ways.items():
            began = time.process_time()
            found[name] = compute()
            seconds[name].append(time.process_time() - began)
    old, new = found.values()
    return {
        "seconds": {name: median(each[1:]) for name, each in seconds.items()},
        "ratio": median(b / a for a, b in zip(*(each[1:] for each in seconds.values()), strict=True)),
        "mib": mib,
        "apart": max(_measure_distance(*pair) for pair in zip(old, new, strict=True)),
    }


def run_apart(compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The result of a copy of this process, which leaves no memory in it."""
    ours, theirs = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=lambda: theirs.send(compute()))
    child.start()
    theirs.close()
    try:
        found: dict[str, Any] = ours.recv()
    finally:
        child.join()
    return found


def _measure_distance(old: Any, new: Any) -> float:
    return float((new.double() - old.double()).norm() / old.double().norm().clamp(min=1e-30))


def _measure_peak(compute: Compute) -> int:
    """The MiB that computing once adds to a copy of this process at most."""

    def run() -> dict[str, Any]:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _read_status("VmRSS")
        compute()
        return {"mib": (_read_status("VmHWM") - before) // 1024}

    return int(run_apart(run)["mib"])


def _read_status(name: str) -> int:
    found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"), re.MULTILINE)
    assert found is not None, f"/proc/self/status has no {name}"
    return int(found[1])
