"""Plays the games of a hybrid run for one step."""

from components.artifacts.refs import CheckpointRef
from components.methods.hybrid.play import collect
from components.runs.run import CollectedStep
from components.schema import PolicyVersion
from components.session.session import Session
from tasks.refresh_weights import ensure_loaded
from tasks.stage import stage


@stage(
    "collect_experience",
    version=4,
    reads=("seed", "environment", "agents", "policies", "generation", "method"),
    writes="experience",
    timeout_seconds=4 * 3600,
    decisive=lambda collected: collected.experience,
)
def collect_experience(
    session: Session, step: int, checkpoint: CheckpointRef, versions: dict[str, PolicyVersion]
) -> CollectedStep:
    """What the step's buttons brought, from the learner before it; `versions` are those of the language models."""
    ensure_loaded(session, versions)
    return collect(session, step, checkpoint, versions)
