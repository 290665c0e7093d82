"""The default preset learns, and learns from its rewards: shuffled between groups they teach nothing."""

import json
from pathlib import Path

import pytest

from tests.integration.trainings import Trainings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NUM_STEPS = 30


def gain(trainings: Trainings, root: Path, run_id: str, *overrides: str) -> float:
    """Held-out success at temperature 1, after minus before. Both runs share one warm start."""
    common = [
        "store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", f"num_steps={NUM_STEPS}",
        "evaluation.sampling=[sample]",
    ]  # fmt: skip
    summary = root / f"{run_id}.json"
    order = {"preset": "plan-path", "run_id": run_id, "overrides": [*common, *overrides], "summary": str(summary)}
    assert trainings.run(order).code == 0, trainings.log()
    before, after = (report["success_rate"] for report in json.loads(summary.read_text())["evaluations"])
    return float(after - before)


def test_the_team_learns_and_its_control_does_not(trainings: Trainings, tmp_path: Path) -> None:
    trained = gain(trainings, tmp_path, "trained")
    control = gain(trainings, tmp_path, "control", "rewards.shuffle_between_groups=true")
    assert control < 0.05, f"trained {trained:+.3f}, control {control:+.3f}"
    assert trained - control >= 0.15, f"trained {trained:+.3f}, control {control:+.3f}"
