"""What grows during a long run with nights beside it: memory, open files and threads of each process, databases, the store.

    python -m benchmarks.soak [--preset tiny] [--steps 300] [--nights 3]

It starts services of its own, trains, and lets the worker play the nightly evaluation while it trains. Each figure is compared
between the second fifth of its time and the last one: what a process needs at all is there by then, what leaks goes on.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import IO

import psutil

from benchmarks.markdown import markdown
from benchmarks.training import services
from tests.processes import tree

SERVICES = ("s3", "mlflow", "prefect", "worker")
COMMAND = (sys.executable, "-P", "-c", "from troupe.cli import main; main()")
NIGHT = ("deployment", "run", "nightly-evaluation/nightly", "--watch")
SAMPLE_SECONDS = 1.0
LARGEST_SLOPE = 0.10
KINDS = ("memory MiB", "open files", "threads")
"""What must not grow. Files on disk hold what a run keeps, and grow by a stated number of bytes a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What was held when the run had finished `step` steps: figures by (owner, kind)."""

    step: int
    figures: Mapping[tuple[str, str], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """The median of a figure in the second fifth of the time, in the third, and in the last."""

    early: float
    middle: float
    late: float

    @property
    def slope(self) -> float:
        """The relative growth from the first of these to the last.

        **Example**

            Growth(early=200.0, middle=209.0, late=210.0).slope  # 0.05
        """
        return self.late / self.early - 1.0 if self.early else 0.0


def main() -> int:
    """Print a table, and return 1 if something grew by 10% or more, or the run or a night did not succeed."""
    arguments = _arguments()
    with services(only=("prefect", "s3", "mlflow", "worker")) as home:
        own = {**os.environ, "TROUPE_HOME": str(home)}
        order = [*COMMAND, "train", arguments.preset, "--set", f"num_steps={arguments.steps}"]
        with (
            open(home / "run.log", "wb") as log,
            open(home / "nights.log", "wb") as nights_log,
            _deploy_nightly(own),
            subprocess.Popen(order, env=own, stdout=log, stderr=subprocess.STDOUT) as run,
        ):
            try:
                samples, nights = _watch(run, home, arguments.steps, arguments.nights, nights_log)
            finally:
                run.terminate()
        for name, failed in (("run.log", run.returncode), ("nights.log", any(nights))):
            if failed:
                print(
                    f"{name}, its end:", (home / name).read_text(errors="replace", encoding="utf-8")[-1500:], sep="\n"
                )
    print(_report(samples))
    grown = [
        f"{owner}, {kind}: {growth.slope:+.1%}"
        for (owner, kind), growth in growths(samples).items()
        if kind in KINDS and growth.slope >= LARGEST_SLOPE
    ]
    print(f"{'MISSED: ' if grown else ''}grown by {LARGEST_SLOPE:.0%} or more: {'; '.join(grown) or 'nothing'}")
    print(
        f"nights beside it: {len(nights)}, of which ended well: {nights.count(0)}; the run's exit code: {run.returncode}"
    )
    return 1 if grown or any(nights) or run.returncode else 0


@contextmanager
def _deploy_nightly(environment: Mapping[str, str]) -> Iterator[None]:
    """The nightly evaluation is deployed inside; what was started for it is stopped."""
    subprocess.run([*COMMAND, "up"], env=environment, stdout=subprocess.DEVNULL, check=True)
    try:
        yield
    finally:
        subprocess.run([*COMMAND, "down"], env=environment, stdout=subprocess.DEVNULL, check=True)


def growths(samples: Sequence[Sample]) -> dict[tuple[str, str], Growth]:
    """The growth of every figure that these fifths of the time since the first step have. Raises ValueError."""
    training = [each.figures for each in samples if each.step > 0]
    if len(training) < 5:
        raise ValueError(f"the steps went by with {len(training)} samples; take more steps")
    fifths = [[each for n, each in enumerate(training) if n * 5 // len(training) == fifth] for fifth in (1, 2, 4)]
    common = set.intersection(*(set(each) for fifth in fifths for each in fifth))
    medians = {key: [median(each[key] for each in fifth) for fifth in fifths] for key in sorted(common)}
    return {key: Growth(early=early, middle=middle, late=late) for key, (early, middle, late) in medians.items()}


def bytes_per_step(samples: Sequence[Sample], key: tuple[str, str]) -> float:
    """The median growth of a figure from one step to another, by the step."""
    last = {each.step: each.figures[key] for each in samples if key in each.figures}
    rates = [(last[to] - last[since]) / (to - since) for since, to in pairwise(sorted(last))]
    return median(rates) if rates else 0.0


def _watch(
    run: subprocess.Popen[bytes], home: Path, num_steps: int, num_nights: int, log: IO[bytes]
) -> tuple[list[Sample], list[int]]:
    """Samples until the run has ended, and the exit codes of the nightly flows that were played meanwhile."""
    samples: list[Sample] = []
    night: subprocess.Popen[bytes] | None = None
    codes: list[int] = []
    while run.poll() is None:
        step = _count_finished_steps(home / "run.log")
        samples.append(Sample(step=step, figures=_figures(run.pid, home)))
        print(f"\rstep {step}/{num_steps}, {len(codes)} nights", end="", file=sys.stderr)
        if night is not None and night.poll() is not None:
            codes.append(night.returncode)
            night = None
        if night is None and step * num_nights > (len(codes) + 0.5) * num_steps:
            night = subprocess.Popen([sys.executable, "-m", "prefect", *NIGHT], stdout=log, stderr=subprocess.STDOUT)
        time.sleep(SAMPLE_SECONDS)
    if night is not None:
        codes.append(night.wait())
    print(file=sys.stderr)
    return samples, codes


def _count_finished_steps(log: Path) -> int:
    """How many steps the run has told of."""
    steps = re.findall(r"^step +\d+ \((\d+) of ", log.read_text(errors="replace", encoding="utf-8"), re.MULTILINE)
    return int(steps[-1]) if steps else 0


def _figures(run_pid: int, home: Path) -> dict[tuple[str, str], float]:
    from infra.services.process import read_record

    records = {name: record.pid for name in SERVICES if (record := read_record(home, name))}
    figures = {}
    for owner, pid in {"run and its training worker": run_pid, **records}.items():
        # The worker's children are the nights, which come and go.
        processes = tree(pid) if owner != "worker" else tree(pid)[:1]
        with suppress(psutil.NoSuchProcess):
            figures[owner, "memory MiB"] = sum(each.memory_full_info().pss for each in processes) / 2**20
            figures[owner, "open files"] = float(sum(each.num_fds() for each in processes))
            figures[owner, "threads"] = float(sum(each.num_threads() for each in processes))
    for owner in ("prefect", "mlflow", "s3"):
        figures[owner, "bytes on disk"] = float(_bytes_below(home / owner))
    return figures


def _bytes_below(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):
                total += os.stat(Path(parent, name)).st_blocks * 512
    return total


def _report(samples: Sequence[Sample]) -> str:
    rows = [
        (
            owner,
            kind,
            f"{growth.early:,.0f}",
            f"{growth.middle:,.0f}",
            f"{growth.late:,.0f}",
            f"{growth.slope:+.1%}" if kind in KINDS else f"{bytes_per_step(samples, (owner, kind)):,.0f} a step",
        )
        for (owner, kind), growth in growths(samples).items()
    ]
    return markdown(("process", "what", "second fifth", "third", "last", "growth"), rows)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--steps", type=int, default=300, help="at least 20")
    parser.add_argument("--nights", type=int, default=3, help="nightly evaluations while it trains")
    arguments = parser.parse_args()
    if arguments.steps < 20 or arguments.nights < 0:
        parser.error(
            f"--steps {arguments.steps} --nights {arguments.nights}: take at least 20 steps, and no night below 0"
        )
    return arguments


if __name__ == "__main__":
    raise SystemExit(main())
