"""Training from top to bottom in one loop, without Prefect: no records, no resume, no MLflow.

    python plain_loop.py tiny 3

It ends in the very weights of `troupe train tiny --steps 3`.
"""

import sys
import tempfile
from pathlib import Path

from components.algorithms.batching import train_batches
from components.artifacts.codec import encode
from components.config import RunConfig
from components.generation.refresh import refresh
from components.methods.first_checkpoints import initial_policies
from components.models.adapters import ADAPTER_FOLDER
from components.rewards.credit import credit_rule
from components.rewards.score import score_shard
from components.rollout.sampler import collect_shard
from components.rollout.statistics import step_metrics
from components.runs.run import Run
from components.schema import PolicyVersion
from components.session.session import Session
from components.session.trainers import training_of
from components.training.base import MODEL_FOLDER, UpdateJob
from components.training.checkpoint import read_manifest
from flows.presets import preset_config


def train(config: RunConfig, work: Path) -> dict[str, str]:
    """Policy -> the digest of its weights after the last step."""
    with Session(Run(run_id="plain", config=config)) as session:
        first = {policy: session.copies.path(ref) for policy, ref in initial_policies(session).items()}
        folders = dict(first)
        for step in range(config.num_steps):
            versions = {policy: load_weights(session, policy, folder) for policy, folder in folders.items()}
            shards = [play_shard(session, step, shard, versions) for shard in range(config.rollout.num_shards)]
            scores = [score(session, shard) for shard in shards]
            batches, metrics = train_batches(
                shards, scores, algorithm=config.algorithm, policies=list(folders),
                with_silent_groups=config.loss.trains_silent_groups,
            )  # fmt: skip
            for policy, batch in batches.items():
                folders[policy] = update_policy(session, step, folders[policy], encode(batch), first[policy], work)
            print(f"step {step}: success {step_metrics(shards, scores)['rollout/success_rate']:.3f}", metrics)
        return {policy: read_manifest(folder).weights_digest for policy, folder in folders.items()}


def load_weights(session, policy, folder):
    """The version now in the policy's engine, proved by its digest and by a probe of log-probabilities."""
    manifest = read_manifest(folder)
    version = PolicyVersion(policy=policy, step=manifest.step, weights_digest=manifest.weights_digest)
    adapter = folder / ADAPTER_FOLDER
    refresh(
        session.engines.of(policy), folder=folder / MODEL_FOLDER, version=version, probe=manifest.probe,
        adapter=adapter if adapter.exists() else None, tolerance=session.config.generation.probe_tolerance,
    )  # fmt: skip
    return version


def play_shard(session, step, shard, versions):
    """The episodes of one shard: a tree of candidates for every problem."""
    scenario = session.scenario
    return collect_shard(
        scenario.shard_plan(step=step, shard=shard), family=scenario.family, router=session.router(versions),
        rubric=scenario.training_rubric, tools=session.toolbox.tools(), refilling=scenario.refilling(step=step, shard=shard),
    )  # fmt: skip


def score(session, shard):
    """The rewards of a shard, computed from its recorded episodes."""
    scenario = session.scenario
    return score_shard(
        shard, family=scenario.family, rubric=scenario.training_rubric, credit=credit_rule(session.config),
        tools=session.toolbox.tools(known=shard.tools), overlong=scenario.overlong, own=scenario.own_rewards,
        turn_order=scenario.turn_order,
    )  # fmt: skip


def update_policy(session, step, folder, batch, first, work):
    """The checkpoint after one update, in a folder of its own."""
    manifest, config = read_manifest(folder), session.config
    batch_file, output = work / f"{manifest.policy}-{step}.batch", work / f"{manifest.policy}-{step}"
    batch_file.write_bytes(batch)
    job = UpdateJob(
        policy=manifest.policy, step=step, seed=config.seed, total_steps=config.num_steps, checkpoint_folder=folder,
        weights_digest=manifest.weights_digest, optimizer_digest=manifest.optimizer_digest,
        base_digest=manifest.base_digest, batch_file=batch_file,
        reference_folder=first if config.loss.kl_coefficient else None, output_folder=output,
        temperature=config.rollout.temperature, training=training_of(config, manifest.policy), loss=config.loss,
    )  # fmt: skip
    session.trainers.of(manifest.policy).update(job)
    return output


if __name__ == "__main__":
    preset, num_steps = sys.argv[1], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        local = ["store.kind=local", f"store.root={folder}/store", "tracking.kind=none", *sys.argv[3:]]
        for name, digest in train(preset_config(preset, local, num_steps=num_steps), Path(folder)).items():
            print(f"{name}: {digest}")
