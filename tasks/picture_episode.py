"""Draws an episode of an evaluation on the emulator: one held-out game, played once more for its screens."""

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.evaluation.held_out import Sampling
from components.methods.hybrid.play import episode_picture
from components.schema import PolicyVersion
from components.session.session import Session
from tasks.refresh_weights import ensure_loaded
from tasks.stage import stage


@stage(
    "picture_episode",
    version=5,
    reads=("seed", "environment", "agents", "policies", "generation", "method"),
    optional=True,
    retries=2,
    timeout_seconds=3600,
)
def picture_episode(
    session: Session, step: int, part: Sampling, checkpoint: CheckpointRef, versions: dict[str, PolicyVersion]
) -> ArtifactRef:
    """The GIF of one way of sampling (`part`), stored and, once it is durable, queued for MLflow."""
    ensure_loaded(session, versions)
    picture = session.store.put_bytes(episode_picture(session, part, checkpoint, versions), kind="EpisodePicture")
    name = f"episodes/{step:06d}-{part}.gif"
    session.store.after_writes(lambda: session.published.post_file(step, name, picture, stage="picture_episode"))
    return picture
