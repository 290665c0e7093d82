"""The policies before training, as committed by the warm start."""

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.environments.base import demonstrator
from components.models.base_checks import check_base
from components.runs.run import SHARED, Run, stage_key
from components.runs.stage_protocol import committed
from components.session.scenario import scenario_of

VERSION = 2
"""Of the stage `warm_start`."""


def initial_checkpoints(store: ArtifactStore, run: Run) -> dict[str, CheckpointRef]:
    """The policies before training of a run that has started."""
    found = committed_initial_checkpoints(store, run)
    assert found is not None, f"run {run.run_id} has no committed warm start in {store.uri}"
    return found


def committed_initial_checkpoints(store: ArtifactStore, run: Run) -> dict[str, CheckpointRef] | None:
    """The policies before training; None if the run has not started, or started under another version of the stage."""
    key = stage_key("warm_start", VERSION, run)
    return committed(store, key, dict[str, CheckpointRef])


def check_bases(store: ArtifactStore, config: RunConfig) -> None:
    """Check that the first policies exist, or that everything they start from does.

    Raises ServiceMissing, or ConfigurationError, also for a randomly initialised model without an expert to teach it
    the answer format. A run with first checkpoints no longer needs the base model.
    """
    if committed_initial_checkpoints(store, Run(run_id=SHARED, config=config)) is None:
        for policy, settings in config.policies.items():
            check_base(policy, settings)
            if settings.api is None and settings.base == "tiny":
                demonstrator(scenario_of(config).family)
