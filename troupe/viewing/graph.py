"""Who did what to whom in a population's run, as the picture that the run has stored."""

from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef
from components.errors import ConfigurationError
from components.methods.population.interactions import PICTURE, file_in
from components.runs.lineages import store_option
from components.runs.session_records import effective_run, read_roles
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of
from components.runs.stored_runs import read_run


def newest_graph(store: ArtifactStore, run_id: str) -> bytes | None:
    """The picture of the newest graph of a run; None if none was drawn. Raises ConfigurationError for an unknown run."""
    run = effective_run(store, read_run(store, run_id))
    keys = manifest_keys(run, store.list(f"runs/{run_id}/steps/"))
    roles = read_roles(store, run_id)
    drawn = sorted(key for key in keys if roles[stage_of(key)].writes == "interactions")
    if not drawn:
        return None
    folder = ArtifactRef.model_validate(read_manifest_at(store, drawn[-1]).output)
    return store.get_bytes(file_in(folder, PICTURE))


def no_graph(store: ArtifactStore, run_id: str) -> ConfigurationError:
    """The error that says why a run has no graph."""
    if not read_run(store, run_id).config.method.draws_graph:
        return ConfigurationError(f"--graph: run {run_id!r} is no population's, so nobody met; leave it out")
    resume = f"`troupe resume {run_id}{store_option(store)}`"
    return ConfigurationError(f"--graph: run {run_id!r} has none; it is drawn at the run's end: {resume}")


def write_graph(picture: bytes, file: Path) -> None:
    """Write the picture of a graph. Raises ConfigurationError if the file cannot be written."""
    try:
        file.write_bytes(picture)
    except OSError as error:
        raise ConfigurationError(
            f"--to {str(file)!r}: {error.strerror}; name a file in a folder that exists"
        ) from error
