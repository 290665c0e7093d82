"""Restarting a run from a stage of a step: nothing is deleted, nothing before it is computed again."""

from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import parse_config
from components.runs.lineages import start_lineage
from components.runs.stored_runs import read_run
from flows.presets import with_overrides
from flows.train import PIPELINE
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings
from troupe.runs.documents import run_document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def num_attempts(store: LocalArtifactStore, stage: str) -> int:
    return sum(1 for key in store.list("runs/again/") if f"/{stage}-v" in key and "/attempts/" in key)


def test_a_restart_with_another_rubric_keeps_its_rollouts(
    trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    assert trainings.run(order(tmp_path, "again")).code == 0, trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    first = run_document(store, "again")
    assert all({*step["attempts"].values()} == {1} for step in first["steps"]), "two shards are no second attempt"
    rollouts = num_attempts(store, "collect_rollouts")

    change = "rewards.team_weight=0.25"
    values = with_overrides(read_run(store, "again").config.model_dump(mode="json"), [change])
    start_lineage(
        store,
        "again",
        from_step=1,
        from_stage="compute_rewards",
        repeats=PIPELINE.repeats("compute_rewards"),
        config=parse_config(values),
    )
    assert trainings.run(order(tmp_path, "again", overrides=(change,))).code == 0, trainings.log()

    second = run_document(store, "again")
    assert second["state"] == "completed"
    assert second["lineages"] == [{"from_step": 1, "from_stage": "compute_rewards"}]
    digests = [[step["checkpoint_digest"]["team"] for step in document["steps"]] for document in (first, second)]
    assert digests[0][0] == digests[1][0], "the step before the restart stands"
    assert digests[0][1] != digests[1][1], "another rubric gives another update"
    # Step 1 keeps its two shards; step 2 plays its two again, under the new weights.
    assert num_attempts(store, "collect_rollouts") == rollouts + 2
    assert len(outcome(store, "again")["steps"]) == 3


def test_another_configuration_without_a_restart_is_refused(trainings: Trainings, tmp_path: Path) -> None:
    started = order(tmp_path, "drift", overrides=("num_steps=0", "training.learning_rate=0.001"))
    assert trainings.run(started).code == 0, trainings.log()
    ended = trainings.run(order(tmp_path, "drift", overrides=("num_steps=0", "training.learning_rate=0.00001")))
    assert ended.code == 1
    assert "ConfigDrift" in trainings.log()
    assert "training.learning_rate: 0.001 -> 1e-05" in trainings.log()


def test_a_damaged_checkpoint_is_refused_by_name(trainings: Trainings, tmp_path: Path) -> None:
    assert trainings.run(order(tmp_path, "torn", overrides=("num_steps=1",))).code == 0, trainings.log()
    store = LocalArtifactStore(tmp_path / "store")
    (uri,) = run_document(store, "torn")["steps"][0]["checkpoint_uri"].values()
    weights = Path(uri.removeprefix("file://")) / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    ended = trainings.run(order(tmp_path, "torn", overrides=("num_steps=2",)))
    assert ended.code == 1
    assert "ArtifactCorrupt" in trainings.log()
    assert "model.safetensors" in trainings.log()
    assert len(run_document(store, "torn")["steps"]) == 1, "what was finished stays"
