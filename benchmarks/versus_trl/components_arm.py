"""Troupe's engine, rewards, advantages and DeepSpeed worker in a plain loop: no Prefect, no store, no progress.

    python -m benchmarks.versus_trl.components_arm ORDER.json

Shows what the flow adds. Every update still writes a whole checkpoint, from which the engine is refreshed.
"""

import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.versus_trl.order import Order
from benchmarks.versus_trl.registry import run_config
from benchmarks.versus_trl.task import POLICY
from components import metrics
from components.algorithms.batching import train_batches
from components.artifacts.codec import encode
from components.generation.refresh import refresh
from components.rewards.score import score_shard
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import shard_problems
from components.rollout.statistics import step_metrics
from components.runs.run import Run
from components.schema import PolicyVersion, RolloutShard, ScoredShard, TrainBatch
from components.session.session import Session
from components.training.base import MODEL_FOLDER, UpdateJob
from components.training.checkpoint import read_manifest, write_initial_checkpoint


def play_step(session: Session, step: int, folder: Path) -> tuple[RolloutShard, ScoredShard]:
    """The step's episodes by the weights in `folder`, and their rewards."""
    config, scenario = session.config, session.scenario
    manifest = read_manifest(folder)
    version = PolicyVersion(policy=POLICY, step=manifest.step, weights_digest=manifest.weights_digest)
    refresh(
        session.engines.of(POLICY), folder=folder / MODEL_FOLDER, version=version,
        probe=manifest.probe, tolerance=config.generation.probe_tolerance,
    )  # fmt: skip
    plan = ShardPlan(
        step=step, shard=0, seed=config.seed, max_turns=config.environment.max_turns, settings=config.rollout,
        problems=shard_problems(config, scenario.family, scenario.options, step=step, shard=0),
    )  # fmt: skip
    family, rubric = scenario.family, scenario.rubric
    shard = collect_shard(plan, family=family, router=session.router({POLICY: version}), rubric=rubric)
    return shard, score_shard(shard, family=family, rubric=rubric)


def update_policy(session: Session, step: int, folder: Path, batch: TrainBatch, work: Path) -> Path:
    """The checkpoint folder after one update."""
    manifest, config = read_manifest(folder), session.config
    batch_file, output = work / "batch", work / f"checkpoint-{step + 1}"
    batch_file.write_bytes(encode(batch))
    session.trainers.of(POLICY).update(
        UpdateJob(
            policy=POLICY, step=step, seed=config.seed, total_steps=config.num_steps, checkpoint_folder=folder,
            weights_digest=manifest.weights_digest, optimizer_digest=manifest.optimizer_digest,
            base_digest=manifest.base_digest, reference_folder=None,
            batch_file=batch_file, output_folder=output, temperature=config.rollout.temperature,
            training=config.training, loss=config.loss,
        )
    )  # fmt: skip
    shutil.rmtree(folder)
    return output


def train(order: Order) -> dict[str, Any]:
    """Train as ordered; when steps ended, and how well they went."""
    config, work = run_config(order), Path(order.work_folder)
    session = Session(Run(run_id="versus-trl", config=config))
    folder = work / "checkpoint-0"
    write_initial_checkpoint(Path(order.model_folder), folder, POLICY)
    ended_at, steps = [], []
    session.trainers.warm_up()
    for step in range(config.num_steps):
        shard, scored = play_step(session, step, folder)
        batches, _ = train_batches(
            [shard], [scored], algorithm=config.algorithm, policies=[POLICY],
            with_silent_groups=config.loss.trains_silent_groups,
        )  # fmt: skip
        folder = update_policy(session, step, folder, batches[POLICY], work)
        ended_at.append(time.perf_counter())
        steps.append(step_metrics([shard], [scored]))
    session.close()
    return {
        "step_ended_at": ended_at,
        "success_rates": [values[metrics.SUCCESS_RATE] for values in steps],
        "num_tokens": [values[metrics.NUM_GENERATED_TOKENS] for values in steps],
        "num_samples": order.num_samples,
    }


if __name__ == "__main__":
    ordered = Order(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    ordered.result_file.write_text(json.dumps(train(ordered)), encoding="utf-8")
