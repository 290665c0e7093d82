"""What Prefect and the store cost per iteration: the `train` flow against the same components in a plain loop.

    python -m benchmarks.orchestration [--steps 20] [--preset plan-path]

Both arms run the same steps from the same checkpoint with the same engine and the same DeepSpeed worker, one after the
other in this process; services (Prefect, MLflow, S3) are started in a temporary folder. Step by step the plain loop's wall
time is subtracted from the flow's; medians are printed, and where the difference goes.
"""

import argparse
import statistics
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.training import services, watch_iterations

NUM_WARM_UP_STEPS = 3
BUDGET_SECONDS, BUSY_BUDGET_SECONDS = 0.25, 0.6
TEN_SECONDS = 10.0


@dataclass
class Clock:
    """Wall seconds by line and step, taken on the main thread."""

    step: int = -1
    seconds: dict[str, dict[int, float]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(float)))

    @contextmanager
    def line(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            if threading.current_thread() is threading.main_thread():
                self.seconds[name][self.step] += time.perf_counter() - started

    def values(self, name: str) -> list[float]:
        return [self.seconds[name][step] for step in sorted(self.seconds["iteration"]) if step >= NUM_WARM_UP_STEPS]

    def median(self, name: str) -> float:
        return statistics.median(self.values(name))


class TimedStore:
    """A store whose verbs are timed under two lines."""

    RECORDS = ("create", "read", "list")
    PAYLOADS = ("put_bytes", "get_bytes", "put_folder", "get_folder")

    def __init__(self, store: Any, clock: Clock) -> None:
        self._store, self._clock = store, clock

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self._store, name)
        if name in (*self.RECORDS, *self.PAYLOADS):
            return self._time(verb, "records" if name in self.RECORDS else "payloads")
        return verb

    def _time(self, verb: Callable[..., Any], line: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._clock.line(line):
                return verb(*args, **kwargs)

        return call


def flow_arm(config: Any, run_id: str, clock: Clock) -> None:
    """The real thing, its iterations and stages timed by what they report."""
    from components.reporting import progress
    from components.session import session
    from flows.train import train

    open_store = session.open_store
    session.open_store = lambda store: TimedStore(open_store(store), clock)  # type: ignore[assignment,return-value]
    started_at: dict[str, float] = {}

    def hear(told: progress.Progress) -> None:
        now = time.perf_counter()
        if told.stage == "refresh_weights" and told.done == 0:
            clock.step = told.step
        if told.stage == "iteration":
            return
        if told.done == 0:
            started_at[told.stage] = now
        elif told.done == told.total and told.stage in started_at:
            clock.seconds["stages"][told.step] += now - started_at.pop(told.stage)

    @contextmanager
    def time_step(step: int) -> Iterator[None]:
        clock.step = step
        with clock.line("iteration"):
            yield

    with progress.subscribe(hear), watch_iterations(time_step):
        train(config, run_id)
    session.open_store = open_store


def plain_arm(config: Any, run_id: str, clock: Clock) -> dict[str, str]:
    """The same components called one after the other, with nothing kept but the worker's checkpoint folder."""
    from components.algorithms.batching import train_batches
    from components.artifacts.codec import encode
    from components.generation.refresh import refresh
    from components.rewards.score import score_shard
    from components.rollout.sampler import ShardPlan, collect_shard
    from components.rollout.shards import shard_problems
    from components.rollout.statistics import step_metrics
    from components.runs.initial_checkpoints import initial_checkpoints
    from components.runs.run import Run
    from components.schema import PolicyVersion
    from components.session.session import Session
    from components.training.base import MODEL_FOLDER, UpdateJob
    from components.training.checkpoint import read_manifest

    session = Session(Run(run_id=run_id, config=config))
    scenario = session.scenario
    family, rubric = scenario.family, scenario.rubric
    first = initial_checkpoints(session.store, session.run)
    folders = {name: session.copies.path(ref) for name, ref in first.items()}
    work = Path(tempfile.mkdtemp(prefix="plain-"))
    session.trainers.warm_up()
    for step in range(config.num_steps):
        clock.step = step
        with clock.line("iteration"):
            versions = {}
            for policy, folder in folders.items():
                manifest = read_manifest(folder)
                versions[policy] = PolicyVersion(
                    policy=policy, step=manifest.step, weights_digest=manifest.weights_digest
                )
                refresh(
                    session.engines.of(policy), folder=folder / MODEL_FOLDER, version=versions[policy],
                    probe=manifest.probe, tolerance=config.generation.probe_tolerance,
                )  # fmt: skip
            plan = ShardPlan(
                step=step, shard=0, seed=config.seed, max_turns=config.environment.max_turns, settings=config.rollout,
                problems=shard_problems(config, family, scenario.options, step=step, shard=0),
            )  # fmt: skip
            shard = collect_shard(plan, family=family, router=session.router(versions), rubric=rubric)
            scored = score_shard(shard, family=family, rubric=rubric)
            batches, _ = train_batches(
                [shard], [scored], algorithm=config.algorithm, policies=folders,
                with_silent_groups=config.loss.trains_silent_groups,
            )  # fmt: skip
            step_metrics([shard], [scored])
            for policy, batch in batches.items():
                manifest = read_manifest(folders[policy])
                batch_file, output = work / f"batch-{step}", work / f"{policy}-{step}"
                batch_file.write_bytes(encode(batch))
                job = UpdateJob(
                    policy=policy, step=step, seed=config.seed, total_steps=config.num_steps,
                    checkpoint_folder=folders[policy], weights_digest=manifest.weights_digest,
                    optimizer_digest=manifest.optimizer_digest, base_digest=manifest.base_digest,
                    reference_folder=None, batch_file=batch_file,
                    output_folder=output, temperature=config.rollout.temperature, training=config.training,
                    loss=config.loss,
                )  # fmt: skip
                session.trainers.of(policy).update(job)
                folders[policy] = output
    digests = {policy: read_manifest(folder).weights_digest for policy, folder in folders.items()}
    session.close()
    return digests


def report(flow: Clock, plain: Clock, num_steps: int) -> None:
    """Print the table."""
    pairs = zip(flow.values("iteration"), plain.values("iteration"), strict=True)
    overhead = statistics.median(one - other for one, other in pairs)
    outside = statistics.median(
        whole - stages for whole, stages in zip(flow.values("iteration"), flow.values("stages"), strict=True)
    )
    records, payloads = flow.median("records"), flow.median("payloads")
    base = plain.median("iteration")
    print(f"median of {num_steps - NUM_WARM_UP_STEPS} steps, seconds per iteration")
    rows = {
        "the train flow": flow.median("iteration"),
        "the same components in a plain loop": base,
        "overhead (median of the differences step by step)": overhead,
        "  Prefect: tasks, child flow, page, and what lies between stages": outside,
        "  store: records (attempts, manifests, outbox)": records,
        "  store: payloads and checkpoint files": payloads,
        "  rest: encoding, digests, the publishing thread": overhead - outside - records - payloads,
    }
    for name, seconds in rows.items():
        print(f"{name:66} {seconds:7.3f}")
    print(f"\noverhead: {overhead:.3f} s, {overhead / base:.0%} of this plain iteration, "
          f"{overhead / TEN_SECONDS:.1%} of one of 10 s")  # fmt: skip
    print(f"budget: at most {BUDGET_SECONDS} s: {'held' if overhead <= BUDGET_SECONDS else 'EXCEEDED'}; with both cores busy "
          f"at most {BUSY_BUDGET_SECONDS} s: {'held' if overhead <= BUSY_BUDGET_SECONDS else 'EXCEEDED'}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--preset", default="plan-path")
    asked = parser.parse_args()
    with services(only=("prefect", "mlflow", "s3")):
        from flows.presets import preset_config

        overrides = ["evaluation.num_problems=20", "evaluation.problems_per_block=20", "warm_start.max_steps=100",
                     "warm_start.min_success=0", "warm_start.max_success=1"]  # fmt: skip
        config = preset_config(asked.preset, overrides, num_steps=asked.steps)
        flow, plain = Clock(), Clock()
        flow_arm(config, "benchmark", flow)
        plain_arm(config, "benchmark", plain)
        report(flow, plain, asked.steps)


if __name__ == "__main__":
    main()
