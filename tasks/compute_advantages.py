"""Joins all shards of a step into one training batch per policy."""

from components.algorithms.batching import train_batches
from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.rollout.statistics import step_metrics
from components.schema import RolloutShard, ScoredShard
from tasks.run import StepBatches
from tasks.session import Session
from tasks.stage_task import stage_task


@stage_task("compute_advantages", version=2)
def compute_advantages(
    session: Session, step: int, rollouts: list[ArtifactRef], scored: list[ArtifactRef]
) -> StepBatches:
    """References to the trained policies' batches, and the step's rollout metrics."""
    config, store = session.config, session.store
    shards = [session.kept.get(ref, RolloutShard) for ref in rollouts]
    scores = [session.kept.get(ref, ScoredShard) for ref in scored]
    trained = [policy for policy, settings in config.policies.items() if settings.trained]
    with_silent = config.loss.trains_silent_groups
    batches, metrics = train_batches(
        shards, scores, algorithm=config.algorithm, policies=trained, with_silent_groups=with_silent
    )
    session.kept.forget([*rollouts, *scored])
    return StepBatches(
        batches={policy: put(store, batch) for policy, batch in batches.items()},
        metrics={**step_metrics(shards, scores), **metrics},
    )
