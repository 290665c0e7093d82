"""Two processes on one run: one manifest a stage, and the optimizer steps once."""

import json
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
    stop = {"part": "/steps/000001/update_policy-v*/", "moment": "computed"}
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


DIFFERENT = (
    "num_steps=2",
    "environment={name: 'tests.integration.seen_by_process:SeenByProcess', max_turns: 1}",
    "agents={caller: {policy: team}}",
    "warm_start={noise: 0.5, min_success: 0.0, max_steps: 30, check_every: 30}",
    "rollout={num_problems: 8, problems_per_block: 8, max_resamples: 0}",
    "evaluation={num_problems: 8}",
)


def different(root: Path, run_id: str, **more: Any) -> dict[str, Any]:
    """A training in which no two processes compute the same."""
    return order(root, run_id, overrides=DIFFERENT, **more)


def manifests_of(store: LocalArtifactStore) -> dict[str, bytes | None]:
    return {key: store.read(key) for key in store.list("runs/") if key.endswith("/manifest.json")}


@pytest.mark.long
def test_of_two_different_results_the_first_counts_and_both_processes_finish(
    trainings: Trainings, other_trainings: Trainings, tmp_path: Path
) -> None:
    one = trainings.start(different(tmp_path, "twice"))
    other = other_trainings.start(different(tmp_path, "twice", summary=str(tmp_path / "other.json")))
    assert trainings.wait(one).code == 0, trainings.log()
    assert other_trainings.wait(other).code == 0, other_trainings.log()
    first, second = (json.loads((tmp_path / name).read_text()) for name in ("twice.json", "other.json"))
    assert first["checkpoint_digest"] == second["checkpoint_digest"]
    assert first["evaluations"] == second["evaluations"]
    assert outcome(LocalArtifactStore(tmp_path / "store"), "twice")["state"] == "completed"


@pytest.mark.long
@pytest.mark.parametrize("step", [0, 1])
def test_a_writer_that_slept_through_a_run_with_other_results_takes_them(
    step: int, trainings: Trainings, other_trainings: Trainings, tmp_path: Path
) -> None:
    stop = {"part": f"/steps/{step:06d}/collect_rollouts-v*/0/", "moment": "computed"}
    late = trainings.start(different(tmp_path, "late", stop=stop))
    trainings.await_stop(late)
    rival = tmp_path / "rival.json"
    assert other_trainings.run(different(tmp_path, "late", summary=str(rival))).code == 0, other_trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    before = manifests_of(store)
    os.kill(late, signal.SIGCONT)
    assert trainings.wait(late).code == 0, trainings.log()
    assert manifests_of(store) == before
    sessions = [key for key in store.list("runs/late/sessions/") if key.endswith("/start.json")]
    assert len(sessions) == 3, "the late one saw that it was overtaken, and began again"
    first, second = (json.loads(path.read_text()) for path in (tmp_path / "late.json", rival))
    assert first["checkpoint_digest"] == second["checkpoint_digest"]
    assert outcome(store, "late")["state"] == "completed"
