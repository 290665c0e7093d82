"""What a method is to the rest of the house: its checks, first checkpoints and evaluation, beside what its configuration says.

Its stages and the function of one step stand in `flows/steps.py`; `components/config/method.py` has the union that names it.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.methods.evaluation import Evaluation
from components.runs.run import Run
from components.session.scenario import Scenario
from components.session.session import Session


class Method:
    """A method that trains the policies of its configuration and nothing else."""

    evaluation = Evaluation()
    """What its checkpoints are measured by."""

    def check(self, scenario: Scenario) -> None:
        """Raise ConfigurationError or ServiceMissing for what keeps a run from starting, before anything is computed."""

    def read_document(self, store: ArtifactStore, run: Run, *, step: int | None) -> dict[str, Any] | None:
        """What `troupe view` shows of a run, as plain JSON; None where that is the episodes of a step."""
        return None

    def add_first_checkpoints(
        self, session: Session, checkpoints: Mapping[str, CheckpointRef]
    ) -> dict[str, CheckpointRef]:
        """The checkpoints before the first step of what the method trains beside the policies, whose own are given."""
        return {}


def method_for(config: RunConfig) -> Method:
    """The method of a configuration: `METHOD` of the package that bears its name."""
    found: Method = import_module(f"components.methods.{config.method.type}.method").METHOD
    return found
