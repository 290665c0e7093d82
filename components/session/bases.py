"""Checks of what the first policies of a run start from."""

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.environments.family import is_cloned, require_expert
from components.models.base_checks import check_base
from components.runs.pipeline import Stage
from components.runs.run import SHARED, Run, stage_key
from components.runs.stage_protocol import read_committed
from components.session.scenario import Scenario


def check_bases(store: ArtifactStore, scenario: Scenario, warm_start: Stage) -> None:
    """Check that the first policies exist, which the stage `warm_start` makes, or that everything they start from does.

    Raises ServiceMissing, or ConfigurationError, also for a randomly initialised model without an expert to teach it
    the answer format. A run with first checkpoints no longer needs the base model.
    """
    config = scenario.config
    if (
        read_committed(store, stage_key(warm_start, Run(run_id=SHARED, config=config)), dict[str, CheckpointRef])
        is None
    ):
        for policy, settings in config.policies.items():
            check_base(policy, settings)
            is_new = settings.api is None and settings.base == "tiny"
            if is_new and config.warm_start.max_steps > 0 and is_cloned(scenario.family):
                require_expert(scenario.family)
