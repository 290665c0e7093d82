"""The policies before training, as committed by the warm start."""

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.runs.pipeline import Stage, When
from components.runs.run import SHARED, Run, stage_key
from components.runs.stage_protocol import committed, manifest_key

WARM_START = Stage(
    name="warm_start",
    version=5,
    reads=(
        *("seed", "environment", "agents", "policies", "warm_start", "generation", "execution", "method"),
        When(
            path="rollout.mode", applies=lambda config: config.rollout.mode == "single"
        ),  # only the agent that plays is cloned
    ),
    scope="shared",
    retries=1,
    delay_seconds=5,
    timeout_seconds=4 * 3600,
)
"""Declared here, since whoever reads a run needs its first result."""


def warm_start_key(config: RunConfig) -> str:
    """The key of the manifest of the policies that runs with this configuration begin with."""
    return manifest_key(stage_key(WARM_START, Run(run_id=SHARED, config=config)))


def initial_checkpoints(store: ArtifactStore, run: Run) -> dict[str, CheckpointRef]:
    """The policies before training of a run that has started."""
    found = committed_initial_checkpoints(store, run)
    assert found is not None, f"run {run.run_id} has no committed warm start in {store.uri}"
    return found


def committed_initial_checkpoints(store: ArtifactStore, run: Run) -> dict[str, CheckpointRef] | None:
    """The policies before training; None if the run has not started, or started under another version of the stage."""
    return committed(store, stage_key(WARM_START, run), dict[str, CheckpointRef])
