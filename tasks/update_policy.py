"""Updates one policy: from a checkpoint and a batch to the next checkpoint."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.cluster.orders import place_order
from components.cluster.ranks import ClusterTrainer
from components.config import Gae, RunConfig
from components.methods.population.credits import asynchronous_updates
from components.models.model_groups import initial_models
from components.population.asynchronous import batch_weight
from components.reporting import progress
from components.reporting.progress_share import share_listener
from components.runs.pipeline import When
from components.runs.run import PolicyUpdate
from components.runs.steps import checkpoints_before
from components.schema import TrainBatch
from components.session.session import Session
from components.session.trainers import training_of
from components.training.base import CriticTerms, UpdateJob, UpdateOrder
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
    order = order_update(session, step, checkpoint, batch)
    needed = (order.reference_step,) if order.reference_step else ()
    with share_listener(lambda share: progress.report("update_policy", step, share, 1, policy=policy)):
        if session.config.resources.runner == "ray":
            done = find_cluster_trainer(session, policy).update(order)
            return done.model_copy(update={"needed_steps": needed})
        with place_update(session, order) as job:
            result = session.trainers.of(policy).update(job)
            stored = session.copies.store(job.output_folder, base=checkpoint.base)
            return PolicyUpdate(checkpoint=stored, metrics=dict(result.metrics), needed_steps=needed)


def order_update(session: Session, step: int, checkpoint: CheckpointRef, batch: ArtifactRef) -> UpdateOrder:
    """One update by references."""
    config = session.config
    reference = _reference(session, step, checkpoint.policy)
    return UpdateOrder(
        policy=checkpoint.policy,
        step=step,
        seed=config.seed,
        total_steps=config.num_steps,
        checkpoint=checkpoint,
        weights_digest=checkpoint.weights_digest,
        optimizer_digest=checkpoint.optimizer_digest,
        reference=reference,
        reference_step=0 if reference is None else reference.step,
        batch=batch,
        temperature=config.rollout.temperature,
        training=training_of(config, checkpoint.policy),
        loss=config.loss,
        critic=_critic_terms(session, batch),
        proximal=config.method.proximal,
    )


def find_cluster_trainer(session: Session, policy: str) -> ClusterTrainer:
    """The trainer of a policy's model on the cluster; it ends with the session."""
    models = initial_models(session.config.policies)
    model = next(name for name, sharing in models.items() if policy in sharing)
    return session.trainers.keep(model, lambda: ClusterTrainer(session.run, model, policy))


@contextmanager
def place_update(session: Session, order: UpdateOrder) -> Iterator[UpdateJob]:
    """The job of an order, with its inputs on this host's disk; its output folder is removed unless stored."""
    work = session.copies.work_folder(order.step)
    try:
        yield place_order(order, session.copies, session.store, work)
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
