"""The default preset learns, and learns from its rewards: shuffled between groups they teach nothing."""

import json
from pathlib import Path

import pytest

from tests.integration.trainings import Trainings

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]
NUM_STEPS = 15


def success_rates(trainings: Trainings, root: Path, run_id: str, *overrides: str) -> tuple[float, float]:
    """Held-out success at temperature 1, before and after. Both runs share one warm start."""
    common = [
        "store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", f"num_steps={NUM_STEPS}",
        "evaluation.sampling=[sample]",
    ]  # fmt: skip
    summary = root / f"{run_id}.json"
    order = {"preset": "plan-path", "run_id": run_id, "overrides": [*common, *overrides], "summary": str(summary)}
    assert trainings.run(order).code == 0, trainings.log()
    before, after = (report["success_rate"] for report in json.loads(summary.read_text())["evaluations"])
    return before, after


def test_the_team_learns_and_its_control_does_not(trainings: Trainings, tmp_path: Path) -> None:
    before, after = success_rates(trainings, tmp_path, "trained")
    same_before, control = success_rates(trainings, tmp_path, "control", "rewards.shuffle_rewards=true")
    seen = f"trained {before:.3f} -> {after:.3f}, control {same_before:.3f} -> {control:.3f}"
    assert same_before == before, seen
    assert 0.2 < before < 0.55, f"the warm start leaves nothing to learn from, or nothing to learn: {seen}"
    assert control - before < 0.05, seen
    assert after - control >= 0.15, seen
