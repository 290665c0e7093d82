"""`troupe view RUN --gif`: an episode of a hybrid run as a GIF, the one that an evaluation has kept, or one played now."""

from pathlib import Path

from components.artifacts.refs import ArtifactRef
from components.config.hybrid import LEARNER_POLICY
from components.errors import ConfigurationError
from components.methods.hybrid.play import episode_picture
from components.methods.open_subjects import check_reached_step
from components.runs.run import Run, stage_key
from components.runs.stage_protocol import read_committed
from components.runs.steps import checkpoints_before
from components.session.session import Session
from tasks.evaluate_policy import name_versions
from tasks.picture_episode import picture_episode
from tasks.refresh_weights import ensure_loaded
from troupe.teams.run_team import find_run


def write_episode(run_id: str, file: Path, *, step: int | None, store_uri: str | None) -> str:
    """Write an episode with the weights before `step` (None: the newest); what was written.

    It is the same episode, kept or played. Stores nothing. Raises ConfigurationError for a run without games, for a step that
    it has not reached and for a file that cannot be written, ServiceMissing where it must be played without the emulator.

    **Example** "an episode after 50 updates, kept by its evaluation".
    """
    run = find_run(run_id, store_uri)
    if run.config.method.writes_answers:
        raise ConfigurationError(f"--gif: run {run_id!r} played no games with a screen; name a run of train-hybrid")
    at = check_reached_step(run, step)
    picture, origin = _picture(run, at)
    try:
        file.write_bytes(picture)
    except OSError as error:
        raise ConfigurationError(
            f"--gif {str(file)!r}: {error.strerror}; name a file in a folder that exists"
        ) from error
    return f"an episode after {at} updates, {origin}"


def _picture(run: Run, at: int) -> tuple[bytes, str]:
    """The GIF, and where it is from."""
    sampling = run.config.evaluation.preferred_sampling
    with Session(run) as session:
        checkpoints = checkpoints_before(session.store, run, at)
        versions = name_versions(run.config, checkpoints)
        inputs = {"step": at, "part": sampling, "checkpoint": checkpoints[LEARNER_POLICY], "versions": versions}
        kept = read_committed(session.store, stage_key(picture_episode.stage, run, inputs), ArtifactRef)
        if kept is not None:
            return session.store.get_bytes(kept), "kept by its evaluation"
        ensure_loaded(session, versions)
        return episode_picture(session, sampling, checkpoints[LEARNER_POLICY], versions), "played now"
