"""What Prefect does not document makes iterations faster, and a run without it is the same run."""

from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_plain_child_flows_end_in_the_same_weights(
    trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    plain = order(tmp_path, "plain", overrides=("resources.fast_iterations=false",))
    assert trainings.run(plain).code == 0, trainings.log()
    assert outcome(LocalArtifactStore(tmp_path / "store"), "plain") == uninterrupted
