"""Joins all shards of a step into one training batch per policy."""

import logging
from collections.abc import Iterable, Mapping, Sequence

from components.algorithms.batching import train_batches
from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.methods.population.credits import asynchronous_updates, moves_of_step
from components.metrics import staleness
from components.population.asynchronous import ages, discount_stale_batch
from components.rollout.lessons import UNSOLVED, StepWarning, has_solved, own_reward_warnings, step_warnings
from components.rollout.statistics import step_metrics
from components.runs.pipeline import When
from components.runs.run import StepBatches
from components.schema import RolloutShard, ScoredShard
from components.session.session import Session
from tasks.stage import stage

_log = logging.getLogger(__name__)


@stage(
    "compute_advantages",
    version=5,
    reads=(
        *("seed", "algorithm", "agents", "policies"),
        # The rows of groups without a signal are in the batches then.
        When(path="loss.trains_silent_groups", applies=lambda config: config.loss.trains_silent_groups),
        When(path="loss.average_over", applies=lambda config: config.loss.average_over == "session"),
        *(
            When(
                path=f"method.weight_updates.{field}",
                applies=lambda config: asynchronous_updates(config) is not None,
            )
            for field in ("every", "staleness_exponent")
        ),
    ),
    needs=("collect_rollouts", "compute_rewards"),
    writes="batches",
    expires_with="rollouts",
    timeout_seconds=600,
)
def compute_advantages(
    session: Session, step: int, rollouts: list[ArtifactRef], scored: list[ArtifactRef]
) -> StepBatches:
    """References to the trained policies' batches, and the step's rollout metrics."""
    config, store = session.config, session.store
    shards = [session.kept.get(ref, RolloutShard) for ref in rollouts]
    scores = [session.kept.get(ref, ScoredShard) for ref in scored]
    trained = [policy for policy, settings in config.policies.items() if settings.trained]
    algorithm = config.algorithm
    batches, metrics = train_batches(
        shards,
        scores,
        algorithm=algorithm,
        policies=trained,
        with_silent_groups=config.loss.trains_silent_groups or algorithm.has_critic,
        moves_E_N=moves_of_step(session, shards) if algorithm.credits_agents else None,
        shares_returns=not config.method.learns_from_credits,
        names_episodes=config.loss.average_over == "session",
    )
    if (updates := asynchronous_updates(config)) is not None:
        metrics = {**metrics, **{staleness(member): float(age) for member, age in ages(batches).items()}}
        batches = {member: discount_stale_batch(batch, updates.staleness_exponent) for member, batch in batches.items()}
    session.kept.forget([*rollouts, *scored])
    if session.publishing is not None:
        session.store.after_writes(lambda: session.published.post_traces(step, shards, scores))
    metrics = {**step_metrics(shards, scores), **metrics}
    warn_of_step(session, step, shards, scores, metrics)
    return StepBatches(batches={policy: put(store, batch) for policy, batch in batches.items()}, metrics=metrics)


def warn_of_step(
    session: Session,
    step: int,
    shards: Sequence[RolloutShard],
    scored: Sequence[ScoredShard],
    values: Mapping[str, float],
) -> None:
    """Log what the step's play and `values`, its metrics, warn of. Once a problem is solved, no step is told to solve none."""
    if has_solved(shards):
        session.warned.add(UNSOLVED)
    warn_once(session, step, step_warnings(shards, values, session.config))
    warn_once(session, step, own_reward_warnings(shards, scored, session.config))


def warn_once(session: Session, step: int, warnings: Iterable[StepWarning]) -> None:
    """Log what this session has not said of the same subject in an earlier step."""
    for warning in warnings:
        if warning.subject not in session.warned:
            session.warned.add(warning.subject)
            _log.warning("step %d: %s", step, warning.text)
