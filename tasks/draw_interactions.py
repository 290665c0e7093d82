"""Draws who did what to whom in a population run, from what is stored: a picture, and a graph for other programs."""

from components.artifacts.refs import ArtifactRef
from components.methods.population.interactions import FILES, file_in, store_interactions
from components.session.session import Session
from tasks.stage import stage


@stage(
    "draw_interactions",
    version=3,
    reads=("method",),
    writes="interactions",
    optional=True,
    retries=2,
    timeout_seconds=3600,
)
def draw_interactions(session: Session, step: int, state: ArtifactRef) -> ArtifactRef:
    """The folder of both files after `step` updates, stored and, once it is durable, queued for MLflow. `state` is the
    population's after them."""
    drawn = store_interactions(session, step)
    for name in FILES:
        session.store.after_writes(
            lambda name=name: session.published.post_file(  # type: ignore[misc]
                step,
                f"interactions/{step:06d}{name.removeprefix('interactions')}",
                file_in(drawn, name),
                stage="draw_interactions",
            )
        )
    return drawn
