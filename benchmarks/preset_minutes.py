"""How many minutes a preset takes on this machine, by its start and its first steps.

    python -m benchmarks.preset_minutes --home DIR [--presets NAME ...] [--steps 4] [--clone-steps 30]
        [--set a.b=c ...]

Trains --steps steps of each by its flow, in an empty store. What a step takes on average, between the end of the first and the
end of the last one, is added for each step that is left, and what the first evaluation took for each that is left. A warm start
of fixed length (min_success 0) is stopped after --clone-steps, and what is left of it is added too; one that clones until the
team plays well enough is waited for.
"""

import argparse
import importlib
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.markdown import markdown
from benchmarks.training import services_to_go_on

LOOK_SECONDS = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """What the first steps of a run took. `step_ends` are seconds since its start, as is `end`."""

    step_ends: Sequence[float]
    end: float
    evaluation_seconds: float
    """Of one evaluation."""
    cloning_seconds: float = 0.0
    """Of the part of the warm start that was left out."""


def minutes(timing: Timing, *, num_steps: int, every: int) -> float:
    """What the whole run takes, with an evaluation every so many steps (0: none).

    **Example** steps end after 10 and 12 s, and all after 15; an evaluation takes 3: 62 steps with one every 10 take
    15 + 60 x 2 + 6 x 3 = 153 s.
    """
    done = len(timing.step_ends)
    a_step = (timing.step_ends[-1] - timing.step_ends[0]) / (done - 1)
    more_evaluations = num_steps // every - done // every if every else 0
    return (
        timing.cloning_seconds + timing.end + (num_steps - done) * a_step + more_evaluations * timing.evaluation_seconds
    ) / 60


def main() -> None:
    from flows.presets import training_deployments

    deployments = training_deployments()
    arguments = _arguments(sorted(deployments))
    rows = []
    with services_to_go_on(arguments.home):
        for preset in arguments.presets:
            rows.append(_row(preset, deployments[preset]["entrypoint"], arguments))
            print(markdown(["preset", "steps", "start s", "a step s", "an evaluation s", "minutes"], rows), flush=True)


def _arguments(presets: Sequence[str]) -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--presets", nargs="+", choices=presets, default=["plan-path"], metavar="NAME")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--clone-steps", type=int, default=30)
    parser.add_argument("--set", nargs="+", default=[], metavar="a.b=c")
    arguments = parser.parse_args()
    for name, least in (("steps", 2), ("clone_steps", 3)):
        if getattr(arguments, name) < least:
            parser.error(
                f"--{name.replace('_', '-')} {getattr(arguments, name)}: a step is timed from the end of the one before; at "
                f"least {least}"
            )
    return arguments


def _row(preset: str, entrypoint: str, arguments: Any) -> list[str]:
    from flows.presets import preset_config

    store = Path(arguments.home) / "stores" / f"{preset}-{time.time_ns()}"
    lines = [*arguments.set, "store.kind=local", f"store.root={store}", "tracking.kind=none"]
    whole = preset_config(preset, lines)
    every = whole.evaluation.every
    if 0 < every < arguments.steps:
        raise SystemExit(f"--steps {arguments.steps}: {preset} evaluates every {every} steps; at most {every}")
    cloning = whole.warm_start
    clone_steps_left = max(0, cloning.max_steps - arguments.clone_steps) if cloning.min_success == 0 else 0
    if clone_steps_left:
        lines += [f"warm_start.{name}={arguments.clone_steps}" for name in ("max_steps", "check_every")]
    module, name = entrypoint.rsplit(".", 1)
    flow = getattr(importlib.import_module(module), name)
    timing = _time(flow, preset_config(preset, lines, num_steps=arguments.steps), store, clone_steps_left)
    a_step = (timing.step_ends[-1] - timing.step_ends[0]) / (len(timing.step_ends) - 1)
    figures = (timing.cloning_seconds + timing.step_ends[0] - a_step, a_step, timing.evaluation_seconds)
    total = minutes(timing, num_steps=whole.num_steps, every=every)
    return [preset, str(whole.num_steps), *(f"{each:.1f}" for each in figures), f"{total:.1f}"]


def _time(flow: Any, config: Any, store: Path, clone_steps_left: int) -> Timing:
    from components.artifacts.local import LocalArtifactStore
    from components.reporting import progress
    from troupe.runs.documents import run_document

    cloned: list[float] = []

    def listen(told: progress.Progress) -> None:
        if told.stage == "warm_start" and "loss" in told.facts:
            cloned.append(time.monotonic())

    start = time.monotonic()
    with _ends_seen(store / "runs" / "timed" / "iterations") as ends, progress.subscribe(listen):
        flow(config, "timed")
    end = time.monotonic() - start
    assert len(ends) == config.num_steps, (len(ends), config.num_steps)
    first = [
        sum(value for name, value in each["metrics"].items() if name.endswith("/seconds"))
        for each in run_document(LocalArtifactStore(store), "timed")["evaluations"]
        if each["step"] == 0
    ]
    # The last one of them plays its check, too; a model that is not cloned tells nothing.
    a_clone_step = (cloned[-2] - cloned[0]) / (len(cloned) - 2) if len(cloned) > 2 else 0.0
    return Timing(
        step_ends=[each - start for each in ends],
        end=end,
        evaluation_seconds=sum(first),
        cloning_seconds=clone_steps_left * a_clone_step,
    )


@contextmanager
def _ends_seen(folder: Path) -> Iterator[list[float]]:
    """When the record of each finished step came, filled in while the block runs."""
    ends: list[float] = []
    over = threading.Event()

    def look() -> None:
        while True:
            last_look = over.is_set()
            found = len(list(folder.glob("*.json")))
            ends.extend([time.monotonic()] * (found - len(ends)))
            if last_look:
                return
            over.wait(LOOK_SECONDS)

    watcher = threading.Thread(target=look, name="steps", daemon=True)
    watcher.start()
    try:
        yield ends
    finally:
        over.set()
        watcher.join()


if __name__ == "__main__":
    main()
