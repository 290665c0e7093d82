"""Makes one population of the members that were updated: their adapters are mixed, or left alone, as the strategy says."""

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.methods.population.coordination import coordinate
from components.runs.run import PolicyUpdate
from components.session.session import Session
from tasks.stage import stage


@stage(
    "coordinate_weights",
    version=3,
    reads=("policies", "method"),
    needs=("update_policy", "mix_returns"),
    writes="mixed checkpoints",
    expires_with="checkpoints",
    timeout_seconds=3600,
    decisive=lambda updates: {policy: update.checkpoint for policy, update in updates.items()},
)
def coordinate_weights(
    session: Session,
    step: int,
    checkpoints: dict[str, CheckpointRef],
    updates: dict[str, PolicyUpdate],
    state: ArtifactRef,
) -> dict[str, PolicyUpdate]:
    """The members after the step, by policy, from those before it and their updates. Each is stored before it returns."""
    return coordinate(session, step, checkpoints, updates, state)
