"""Updates a policy of a hybrid run, the RL learner or a language model: from a checkpoint and a step of play to the next."""

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.config.hybrid import find_tuned_model
from components.methods.hybrid.play import update
from components.runs.pipeline import When
from components.runs.run import PolicyUpdate
from components.session.session import Session
from tasks.stage import stage
from tasks.update_policy import update_model


def _tunes(config: RunConfig) -> bool:
    return find_tuned_model(config) is not None


@stage(
    "update_learner",
    version=4,
    reads=(
        *("seed", "environment", "method"),
        *(When(path=path, applies=_tunes) for path in ("policies", "training", "loss", "rollout")),
        When(path="num_steps", applies=lambda config: _tunes(config) and config.training.lr_schedule != "constant"),
    ),
    needs=("collect_experience",),
    writes="checkpoints",
    expires_with="checkpoints",
    retries=2,
    timeout_seconds=4 * 3600,
    decisive=lambda update: update.checkpoint,
)
def update_learner(
    session: Session, step: int, part: str, checkpoint: CheckpointRef, experience: ArtifactRef
) -> PolicyUpdate:
    """The next checkpoint of policy `part`, stored before the stage is committed. `experience` is the Experience of the
    learner, and the batch of a language model."""
    if part in session.config.policies:
        return update_model(session, step, part, checkpoint, experience)
    return update(session, step, checkpoint, experience)
