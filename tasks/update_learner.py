"""Updates the RL learner of a hybrid run: from a checkpoint and a step's experience to the next checkpoint."""

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.runs.expected_records import UPDATE
from components.runs.run import PolicyUpdate
from components.session.hybrid import updated
from components.session.session import Session
from tasks.stage import stage


@stage(
    UPDATE,  # the name by which garbage collection, `verify` and restarts know what writes checkpoints
    version=1,
    reads=("seed", "environment", "hybrid"),
    needs=("collect_experience",),
    retries=2,
    timeout_seconds=4 * 3600,
    decisive=lambda update: update.checkpoint,
)
def update_learner(
    session: Session, step: int, part: str, checkpoint: CheckpointRef, experience: ArtifactRef
) -> PolicyUpdate:
    """The next checkpoint of the learner (`part`), stored before the stage is committed."""
    return updated(session, step, checkpoint, experience)
