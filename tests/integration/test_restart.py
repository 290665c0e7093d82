"""Restarting a run from a stage of a step: nothing is deleted, nothing before it is computed again."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import parse_config
from components.runs.lineages import start_lineage
from components.runs.stored_runs import read_run
from flows.presets import with_overrides
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings
from troupe.runs.documents import run_document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def num_attempts(store: LocalArtifactStore, stage: str) -> int:
    return sum(1 for key in store.list("runs/whole/") if f"/{stage}-v" in key and "/attempts/" in key)


def test_a_restart_with_another_rubric_keeps_its_rollouts(
    trainings: Trainings, whole_run: LocalArtifactStore, tmp_path: Path
) -> None:
    store = whole_run
    first = run_document(store, "whole")
    assert all({*step["attempts"].values()} == {1} for step in first["steps"]), "two shards are no second attempt"
    rollouts = num_attempts(store, "collect_rollouts")

    change = "rewards.team_weight=0.25"
    values = with_overrides(read_run(store, "whole").config.model_dump(mode="json"), [change])
    start_lineage(
        store,
        "whole",
        from_step=1,
        from_stage="compute_rewards",
        repeats=PIPELINE.repeats("compute_rewards"),
        config=parse_config(values),
    )
    assert trainings.run(order(tmp_path, "whole", overrides=(change,))).code == 0, trainings.log()

    second = run_document(store, "whole")
    assert second["state"] == "completed"
    assert second["lineages"] == [{"from_step": 1, "from_stage": "compute_rewards"}]
    digests = [[step["checkpoint_digest"]["team"] for step in document["steps"]] for document in (first, second)]
    assert digests[0][0] == digests[1][0], "the step before the restart stands"
    assert digests[0][1] != digests[1][1], "another rubric gives another update"
    # Step 1 keeps its two shards; step 2 plays its two again, under the new weights.
    assert num_attempts(store, "collect_rollouts") == rollouts + 2
    assert len(outcome(store, "whole")["steps"]) == 3


def test_another_configuration_without_a_restart_is_refused(
    trainings: Trainings, whole_run: LocalArtifactStore, tmp_path: Path
) -> None:
    started_with = read_run(whole_run, "whole").config.training.learning_rate
    ended = trainings.run(order(tmp_path, "whole", overrides=("training.learning_rate=0.00001",)))
    assert ended.code == 1
    assert "ConfigDrift" in trainings.log()
    assert f"training.learning_rate: {started_with} -> 1e-05" in trainings.log()


def test_a_damaged_checkpoint_is_refused_by_name(
    trainings: Trainings, whole_run: LocalArtifactStore, tmp_path: Path
) -> None:
    (uri,) = run_document(whole_run, "whole")["steps"][-1]["checkpoint_uri"].values()
    weights = Path(uri.removeprefix("file://")) / "model" / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    ended = trainings.run(order(tmp_path, "whole", overrides=("num_steps=4",)))
    assert ended.code == 1
    assert "ArtifactCorrupt" in trainings.log()
    assert "model.safetensors" in trainings.log()
    assert len(run_document(whole_run, "whole")["steps"]) == 3, "what was finished stays"
