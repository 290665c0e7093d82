"""Two processes on one run: one manifest a stage, and the optimizer steps once."""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_run_started_twice_at_once_is_one_run(
    trainings: Trainings, other_trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    one = trainings.start(order(tmp_path, "twice"))
    other = other_trainings.start(order(tmp_path, "twice", summary=str(tmp_path / "other.json")))
    assert trainings.wait(one).code == 0, trainings.log()
    assert other_trainings.wait(other).code == 0, other_trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    assert outcome(store, "twice") == uninterrupted
    manifests = [key for key in store.list("runs/twice/") if key.endswith("/manifest.json")]
    # 2 evaluations before and 2 after; 2 rollouts, 2 rewards, 1 advantage, 1 update, 1 publish a step
    assert len(manifests) == 4 + 3 * 7


def test_a_writer_that_slept_through_the_run_changes_nothing(
    trainings: Trainings, other_trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    stop = {"part": "/steps/000001/update_policy-v1/", "moment": "computed"}
    late = trainings.start(order(tmp_path, "late", stop=stop))
    trainings.await_stop(late)
    summary = str(tmp_path / "rival.json")
    assert other_trainings.run(order(tmp_path, "late", summary=summary)).code == 0, other_trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    before = {key: store.read(key) for key in store.list("runs/late/steps/000001/") if key.endswith("/manifest.json")}
    os.kill(late, signal.SIGCONT)
    assert trainings.wait(late).code == 0, trainings.log()
    after = {key: store.read(key) for key in store.list("runs/late/steps/000001/") if key.endswith("/manifest.json")}
    assert after == before
    assert outcome(store, "late") == uninterrupted
