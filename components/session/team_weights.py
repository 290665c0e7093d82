"""Teams by their weights: a name, RUN@STEP, means other weights after a restart, and the earlier ones stay in the store."""

from collections.abc import Callable, Mapping

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.identity import fingerprint
from components.runs.available_checkpoints import checkpoints_after, is_available
from components.runs.lineages import read_config
from components.runs.run import Run

Checkpoints = Mapping[str, CheckpointRef]


def digest_team(checkpoints: Checkpoints) -> str:
    """The digest of all weights of a team, as the model registry has it."""
    return fingerprint({policy: each.weights_digest for policy, each in checkpoints.items()})


def read_weights(store: ArtifactStore, run: Run, step: int) -> str | None:
    """The digest of the team after `step` updates; None if the run has not reached that."""
    checkpoints = checkpoints_after(store, run, step)
    return None if checkpoints is None else digest_team(checkpoints)


def find_run_with(store: ArtifactStore, run: Run, step: int, is_wanted: Callable[[Checkpoints], bool]) -> Run | None:
    """The run as it was when its team after `step` updates was the wanted one: as it is now, or before a restart.

    None if it never was, or if files of that team are no longer in the store.
    """
    for number in range(len(run.lineages), -1, -1):
        known = run if number == len(run.lineages) else _run_before(store, run, number)
        checkpoints = known and checkpoints_after(store, known, step)
        if checkpoints and is_wanted(checkpoints) and all(is_available(store, each) for each in checkpoints.values()):
            return known
    return None


def _run_before(store: ArtifactStore, run: Run, number: int) -> Run | None:
    """The run with the first `number` of its restarts alone."""
    lineages = run.lineages[:number]
    config = lineages[-1].config if lineages else read_config(store, run.run_id)
    return (
        None
        if config is None
        else Run(run_id=run.run_id, config=config, lineages=lineages).bind_to_store(run.config.store)
    )
