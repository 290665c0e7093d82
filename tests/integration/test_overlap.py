"""Rollouts one step ahead: exact after a kill, one update behind, and shards side by side change nothing."""

from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings, await_no_workers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
KILLED_IN = (
    ("collect_rollouts-v*/0/", "computed"),
    ("collect_rollouts-v*/0/", "committed"),
    ("compute_rewards-v*/0/", "committed"),
    ("update_policy-v*/", "committed"),
)
"""In the order of a step: none of them is committed when the one before it is. test_kill_and_resume.py has what is computed."""
AHEAD = ("rollout.overlap=one_step", "loss.importance_cap=2.0", "num_steps=3")


@pytest.fixture(scope="module")
def whole(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("ahead")
    assert trainings.run(order(root, "whole", overrides=AHEAD)).code == 0, trainings.log()
    return outcome(LocalArtifactStore(root / "store"), "whole")


def test_each_step_is_played_by_the_weights_before_the_last_update(trainings: Trainings, whole: dict[str, Any]) -> None:
    staleness = [step["metrics"]["train/team/sampler_lag"] for step in whole["steps"]]
    assert staleness == [0.0, 1.0, 1.0]


def test_a_killed_run_ends_where_a_whole_one_ends(trainings: Trainings, whole: dict[str, Any], tmp_path: Path) -> None:
    for part, moment in KILLED_IN:
        stop = {"part": f"/steps/000001/{part}", "moment": moment}
        ended = trainings.run(order(tmp_path, "cut", overrides=AHEAD, stop=stop))
        assert (ended.code, ended.stopped) == (-9, True), f"{part} {moment}: {trainings.log()}"
        await_no_workers("cut")
    assert trainings.run(order(tmp_path, "cut", overrides=AHEAD)).code == 0, trainings.log()
    assert outcome(LocalArtifactStore(tmp_path / "store"), "cut") == whole


@pytest.mark.long
def test_shards_side_by_side_give_the_same(trainings: Trainings, whole: dict[str, Any], tmp_path: Path) -> None:
    both = (*AHEAD, "resources.max_shards_at_once=2")
    assert trainings.run(order(tmp_path, "both", overrides=both)).code == 0, trainings.log()
    assert outcome(LocalArtifactStore(tmp_path / "store"), "both") == whole
