"""A run that is killed anywhere and started again ends where an uninterrupted run ends, bit for bit."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from flows.reading import run_document
from tests.integration.trainings import Trainings, await_no_workers, kill, tree

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
NUM_RANDOM_KILLS = 20
BOUNDARIES = [
    # stage, the part of its key that names one piece of it
    ("warm_start", "_shared/steps/000000/warm_start-v1/"),
    ("evaluate_policy", "/steps/000000/evaluate_policy-v1/greedy/"),
    ("collect_rollouts", "/steps/000001/collect_rollouts-v1/1/"),
    ("compute_rewards", "/steps/000001/compute_rewards-v1/0/"),
    ("compute_advantages", "/steps/000001/compute_advantages-v1/"),
    ("update_policy", "/steps/000001/update_policy-v1/"),
    ("publish_checkpoint", "/steps/000001/publish_checkpoint-v1/"),
]
MOMENTS = ("started", "computed", "committed")


def order(root: Path, run_id: str, **more: Any) -> dict[str, Any]:
    overrides = ["store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none"]
    return {"run_id": run_id, "overrides": overrides, "summary": str(root / f"{run_id}.json"), **more}


def outcome(store: ArtifactStore, run_id: str) -> dict[str, Any]:
    """All that must not depend on interruptions: digests, metrics and evaluations, no wall times."""
    document = run_document(store, run_id)
    kept = ("step", "metrics", "checkpoint_digest", "optimizer_digest")
    return {
        "state": document["state"],
        "steps": [{name: step[name] for name in kept} for step in document["steps"]],
        "evaluations": document["evaluations"],
    }


@pytest.fixture(scope="module")
def uninterrupted(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("uninterrupted")
    ended = trainings.run(order(root, "whole"))
    assert ended.code == 0, trainings.log()
    result = outcome(LocalArtifactStore(root / "store"), "whole")
    assert result["state"] == "completed"
    assert len(result["steps"]) == 3
    assert len({step["checkpoint_digest"]["team"] for step in result["steps"]}) == 3, "the updates change nothing"
    return result


def test_killed_at_every_stage_boundary(
    trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    for _, part in BOUNDARIES:
        for moment in MOMENTS:
            ended = trainings.run(order(tmp_path, "cut", stop={"part": part, "moment": moment}))
            assert (ended.code, ended.stopped) == (-9, True), f"{part} {moment}: {trainings.log()}"
            await_no_workers("cut")
    assert trainings.run(order(tmp_path, "cut")).code == 0, trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    assert outcome(store, "cut") == uninterrupted
    assert_each_kill_cost_one_attempt(store)


def assert_each_kill_cost_one_attempt(store: LocalArtifactStore) -> None:
    """A stage killed after its start and before its commit ran three times; everything else ran once."""
    attempts: dict[str, int] = {}
    for key in store.list("runs/"):
        if "/attempts/" in key:
            stage = key.split("/attempts/")[0]
            attempts[stage] = attempts.get(stage, 0) + 1
    for stage, count in attempts.items():
        was_hit = any(part in f"{stage}/" for _, part in BOUNDARIES)
        assert count == (3 if was_hit else 1), f"{stage} ran {count} times"


def test_killed_at_random_instants(trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path) -> None:
    rng = random.Random(20)
    num_kills = 0
    for kill_number in range(NUM_RANDOM_KILLS * 4):
        pid = trainings.start(order(tmp_path, "shot"))
        time.sleep(rng.uniform(0.3, 6.0))
        # Every other time the training process alone is killed, and its workers must notice.
        kill(tree(pid) if kill_number % 2 else tree(pid)[:1])
        num_kills += trainings.wait(pid).code == -9
        await_no_workers("shot")
        if num_kills == NUM_RANDOM_KILLS:
            break
    ended = trainings.run(order(tmp_path, "shot"))
    assert ended.code == 0, trainings.log()
    assert outcome(LocalArtifactStore(tmp_path / "store"), "shot") == uninterrupted
