"""Updates one policy: from a checkpoint and a batch to the next checkpoint."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import Gae, RunConfig
from components.methods.population.credits import asynchronous_updates
from components.population.asynchronous import batch_weight
from components.reporting import progress
from components.reporting.progress_share import share_listener
from components.runs.pipeline import When
from components.runs.run import PolicyUpdate
from components.runs.steps import checkpoints_before
from components.schema import TrainBatch
from components.session.session import Session
from components.session.trainers import training_of
from components.training.base import CriticTerms, UpdateJob
from tasks.stage import stage


@stage(
    "update_policy",
    version=8,
    reads=(
        *("seed", "policies", "training", "loss", "rollout"),
        When(path="num_steps", applies=lambda config: config.training.lr_schedule != "constant"),
        *(When(path=path, applies=lambda config: config.algorithm.has_critic) for path in ("algorithm",)),
        When(path="method.weight_updates.staleness_exponent", applies=lambda config: _ages_advantages(config)),
        When(path="method.weight_updates.proximal", applies=lambda config: config.method.proximal > 0),
    ),
    needs=("compute_advantages",),
    writes="checkpoints",
    expires_with="checkpoints",
    retries=2,
    timeout_seconds=12 * 3600,
    decisive=lambda update: update.checkpoint,
)
def update_policy(
    session: Session, step: int, part: str, checkpoint: CheckpointRef, batch: ArtifactRef
) -> PolicyUpdate:
    """The next checkpoint of policy `part`, stored before the stage is committed."""
    return update_model(session, step, part, checkpoint, batch)


def update_model(
    session: Session, step: int, policy: str, checkpoint: CheckpointRef, batch: ArtifactRef
) -> PolicyUpdate:
    """A language model after learning from a batch, stored."""
    with update_job(session, step, checkpoint, batch) as job:
        with share_listener(lambda share: progress.report("update_policy", step, share, 1, policy=policy)):
            result = session.trainers.of(policy).update(job)
        stored = session.copies.store(job.output_folder, base=checkpoint.base)
        needed = (job.reference_step,) if job.reference_step else ()
        return PolicyUpdate(checkpoint=stored, metrics=dict(result.metrics), needed_steps=needed)


@contextmanager
def update_job(session: Session, step: int, checkpoint: CheckpointRef, batch: ArtifactRef) -> Iterator[UpdateJob]:
    """One update's job, with its inputs on disk; its output folder is removed unless stored."""
    config = session.config
    reference = _reference(session, step, checkpoint.policy)
    work = session.copies.work_folder(step)
    try:
        batch_file = work / "batch"
        batch_file.write_bytes(session.store.get_bytes(batch))
        yield UpdateJob(
            policy=checkpoint.policy,
            step=step,
            seed=config.seed,
            total_steps=config.num_steps,
            checkpoint_folder=session.copies.path(checkpoint),
            weights_digest=checkpoint.weights_digest,
            optimizer_digest=checkpoint.optimizer_digest,
            base_digest=session.copies.manifest(checkpoint).base_digest,
            reference_folder=None if reference is None else session.copies.path(reference),
            reference_step=0 if reference is None else reference.step,
            batch_file=batch_file,
            output_folder=work / "checkpoint",
            temperature=config.rollout.temperature,
            training=training_of(config, checkpoint.policy),
            loss=config.loss,
            critic=_critic_terms(session, batch),
            proximal=config.method.proximal,
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _ages_advantages(config: RunConfig) -> bool:
    """Whether a critic's advantages are weighed by the staleness of the weights that played."""
    return config.algorithm.has_critic and asynchronous_updates(config) is not None


def _critic_terms(session: Session, batch: ArtifactRef) -> CriticTerms | None:
    algorithm, updates = session.config.algorithm, asynchronous_updates(session.config)
    if not isinstance(algorithm, Gae):
        return None
    return CriticTerms(
        discount=algorithm.discount,
        trace=algorithm.trace,
        value_coefficient=algorithm.value_coefficient,
        advantage_weight=1.0
        if updates is None
        else batch_weight(session.kept.get(batch, TrainBatch), updates.staleness_exponent),
    )


def _reference(session: Session, step: int, policy: str) -> CheckpointRef | None:
    """The policy before training, or before the newest multiple of `loss.reference_every` steps, if the loss needs it."""
    loss = session.config.loss
    if loss.kl_coefficient == 0:
        return None
    moved_at = 0 if loss.reference_every is None else step // loss.reference_every * loss.reference_every
    return checkpoints_before(session.store, session.run, moved_at)[policy]
