"""`troupe view RUN --gif`: an episode of a hybrid run, played now on the cartridge, as a GIF."""

from pathlib import Path

from components.config.hybrid import REFLEXES
from components.errors import ConfigurationError
from components.evaluation.held_out import Sampling
from components.runs.steps import checkpoints_before, first_unfinished_step
from components.session.hybrid import episode_picture
from components.session.session import Session
from components.session.stores import open_store
from flows.hybrid_iteration import model_versions
from tasks.refresh_weights import ensure_loaded
from troupe.teams.run_team import stored_run


def write_episode(
    run_id: str, file: Path, *, step: int | None, store_uri: str | None, sampling: Sampling = "sample", seed: int = 0
) -> int:
    """Play an episode with the weights before `step` (None: the newest) and write it; the number of updates of these weights.

    Stores nothing. Raises ConfigurationError for a run without games, for a step that it has not reached and for a file that
    cannot be written, ServiceMissing without the emulator.
    """
    run = stored_run(run_id, store_uri)
    if run.config.hybrid is None:
        raise ConfigurationError(f"--gif: run {run_id!r} played no games with a screen; name a run of train-hybrid")
    store = open_store(run.config.store)
    reached = first_unfinished_step(store, run)
    at = reached if step is None else step
    if not 0 <= at <= reached:
        raise ConfigurationError(f"--step {at}: run {run_id!r} has finished {reached} updates; use 0 to {reached}")
    checkpoints = checkpoints_before(store, run, at)
    with Session(run) as session:
        versions = model_versions(session, checkpoints)
        ensure_loaded(session, versions)
        picture = episode_picture(session, sampling, checkpoints[REFLEXES], versions, seed=seed)
    try:
        file.write_bytes(picture)
    except OSError as error:
        raise ConfigurationError(
            f"--gif {str(file)!r}: {error.strerror}; name a file in a folder that exists"
        ) from error
    return at
