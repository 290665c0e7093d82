"""The policies before training. Runs of equal configuration share them."""

from components.artifacts.refs import CheckpointRef
from components.methods.first_checkpoints import initial_policies
from components.runs.pipeline import When
from components.session.session import Session
from tasks.stage import stage


@stage(
    "warm_start",
    version=7,
    reads=(
        *("seed", "environment", "agents", "policies", "warm_start", "generation", "execution", "method"),
        # only the agent that plays is cloned
        When(path="rollout.mode", applies=lambda config: config.rollout.mode == "single"),
    ),
    scope="shared",
    writes="initial checkpoints",
    retries=1,
    timeout_seconds=4 * 3600,
)
def warm_start(session: Session) -> dict[str, CheckpointRef]:
    """Checkpoint 0 of each policy with weights."""
    return initial_policies(session)
