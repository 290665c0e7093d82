"""Mixes the returns of a population's agents by its training mode, and folds them into the run's state."""

from components.artifacts.refs import ArtifactRef
from components.methods.population.credits import credit_shards, put_mixed_step
from components.runs.run import MixedStep
from components.session.session import Session
from tasks.stage import stage


@stage(
    "mix_returns",
    version=3,
    reads=("seed", "environment", "agents", "policies", "rollout", "rewards", "algorithm", "method"),
    needs=("collect_rollouts", "compute_rewards"),
    writes="returns",
    timeout_seconds=600,
)
def mix_returns(
    session: Session, step: int, rollouts: list[ArtifactRef], scored: list[ArtifactRef], state: ArtifactRef | None
) -> MixedStep:
    """The credits of the step's actions and the state after it; `state` is the one before, None at the beginning."""
    shards, credited = credit_shards(session, rollouts, scored, state)
    return put_mixed_step(session, step, rollouts, shards, credited)
