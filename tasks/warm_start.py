"""The policies before training. Runs of equal configuration share them."""

from components.artifacts.refs import CheckpointRef
from components.methods.first_checkpoints import initial_policies
from components.runs.initial_checkpoints import WARM_START
from components.session.session import Session
from tasks.stage import stage_as


@stage_as(WARM_START)
def warm_start(session: Session) -> dict[str, CheckpointRef]:
    """Checkpoint 0 of each policy with weights."""
    return initial_policies(session)
