"""What an iteration costs against the number of problems, the group size, turns and agents: time, memory and their slopes.

    python -m benchmarks.scaling [--axes problems group_size turns agents] [--steps 5] [--points 4]

The environment is a relay: every agent answers in every turn and nobody finishes, so the size of an iteration is exactly the
product of the four numbers. Each point trains in a process of its own, through the `train` flow with a local store; the time
is the median over its iterations but the first, the memory the most that the process and its training worker hold together, a
shared page counted once. A cost per unit is that of the growth from one point to the next; what grows linearly has the same one
everywhere, and a large start-up cost only lowers the first.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.footprint import watch
from benchmarks.training import services, watch_iterations

TIMEOUT_SECONDS = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The size of one iteration."""

    problems: int = 32
    group_size: int = 8
    turns: int = 2
    agents: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What one iteration took."""

    seconds: float
    peak_mib: float
    num_tokens: float


AXES: dict[str, tuple[int, ...]] = {
    "problems": (32, 64, 128, 256),
    "group_size": (8, 16, 32, 64),
    "turns": (2, 4, 8, 16),
    "agents": (1, 2, 4, 8),
}
ALLOWED_GROWTH = 1.25
"""Of the cost per unit, from the middle step of an axis to its last: room for noise, not for a square, which would give 2."""


def measure_here(size: Size, num_steps: int) -> dict[str, float]:
    """Train `num_steps` iterations of this size here: medians of their seconds and tokens."""
    from benchmarks import relay
    from components.artifacts.local import LocalArtifactStore
    from components.config import parse_config
    from components.metrics import NUM_GENERATED_TOKENS
    from flows.train import train
    from troupe.runs.documents import run_document

    relay.register()
    seconds: list[float] = []

    @contextmanager
    def time_step(step: int) -> Iterator[None]:
        started = time.perf_counter()
        yield
        seconds.append(time.perf_counter() - started)

    with tempfile.TemporaryDirectory(prefix="troupe-benchmark-") as folder, watch_iterations(time_step):
        config = parse_config(
            {
                "preset": "scaling", "seed": 0, "num_steps": num_steps,
                "environment": {"name": f"relay{size.agents}", "max_turns": size.turns},
                "agents": {f"agent{number}": {"policy": "team"} for number in range(size.agents)},
                "policies": {"team": {"base": "tiny"}},
                "warm_start": {"max_steps": 0, "min_success": 0.0, "max_success": 1.0, "num_check_problems": 1},
                "rollout": {"num_problems": size.problems, "group_size": size.group_size},
                "evaluation": {"num_problems": 1, "sampling": ["greedy"]},
                "store": {"kind": "local", "root": folder}, "tracking": {"kind": "none"},
            }
        )  # fmt: skip
        train(config, "scaling")
        steps = run_document(LocalArtifactStore(Path(folder)), "scaling")["steps"]
    tokens = [step["metrics"][NUM_GENERATED_TOKENS] for step in steps]
    return {"seconds": statistics.median(seconds[1:]), "num_tokens": statistics.median(tokens[1:])}


def measure_cost(size: Size, num_steps: int) -> Cost:
    """The cost of a size, from a process of its own."""
    order = ("--steps", str(num_steps), "--point", json.dumps(asdict(size)))
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "benchmarks.scaling", *order]
        with subprocess.Popen(command, stdout=told, stderr=log) as process:
            footprint = watch(process, TIMEOUT_SECONDS)
        told.seek(0)
        log.seek(0)
        if process.returncode != 0:
            raise SystemExit(f"{size} failed:\n{log.read()[-3000:]}")
        return Cost(peak_mib=footprint.pss_mib, **json.loads(told.read().splitlines()[-1]))


def slopes(values: Sequence[int], costs: Sequence[float]) -> list[float]:
    """What one unit more costs, between neighbouring points.

    **Example** values 1, 2, 4 and costs 10, 11, 13: slopes 1 and 1.
    """
    return [(b - a) / (y - x) for x, y, a, b in zip(values, values[1:], costs, costs[1:], strict=False)]


def report(axis: str, values: Sequence[int], costs: Sequence[Cost]) -> bool:
    """Print one axis; whether nothing grows faster than linearly."""
    seconds, memory = [cost.seconds for cost in costs], [cost.peak_mib for cost in costs]
    print(
        f"\n{axis:12}{'s/iteration':>14}{'s per unit':>14}{'peak MiB':>12}{'MiB per unit':>14}{'tokens':>10}{'us/token':>10}"
    )
    per_second, per_mib = [float("nan"), *slopes(values, seconds)], [float("nan"), *slopes(values, memory)]
    for value, cost, each, more in zip(values, costs, per_second, per_mib, strict=True):
        print(f"{value:<12}{cost.seconds:14.3f}{each:14.4f}{cost.peak_mib:12.0f}{more:14.2f}{cost.num_tokens:10.0f}"
              f"{1e6 * cost.seconds / cost.num_tokens:10.1f}")  # fmt: skip
    # By token, because random policies end their answers where they like.
    by_token = slopes([round(cost.num_tokens) for cost in costs], seconds)
    if len(by_token) < 2:
        print("one step of an axis has nothing to be compared with")
        return True
    growth = by_token[-1] / by_token[-2]
    held = growth <= ALLOWED_GROWTH
    print(f"cost of one token more, last step over the one before: {growth:.2f} (a square: 2; allowed {ALLOWED_GROWTH}): "
          f"{'held' if held else 'MISSED'}")  # fmt: skip
    return held


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--axes", nargs="+", default=list(AXES), choices=list(AXES))
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--points", type=int, default=4, help="of each axis, from its smallest; at most 4")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.point:
        print(json.dumps(measure_here(Size(**json.loads(asked.point)), asked.steps)))
        return
    held = []
    with services():
        for axis in asked.axes:
            values = AXES[axis][: asked.points]
            costs = [measure_cost(replace(Size(), **{axis: value}), asked.steps) for value in values]
            held.append(report(axis, values, costs))
    raise SystemExit(0 if all(held) else 1)


if __name__ == "__main__":
    main()
