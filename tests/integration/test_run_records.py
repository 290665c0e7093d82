"""A run's name, place and restarts through the commands: what fails takes nothing, what moves goes on where it lies."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.runs.gc import collect_garbage
from components.runs.lineages import list_runs
from components.runs.verify import verify_run
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings
from troupe.runs.documents import run_document

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def num_attempts(store: LocalArtifactStore) -> int:
    return sum("/attempts/" in key for key in store.list("runs/"))


def test_a_start_that_fails_before_its_first_checkpoint_leaves_the_name_free(
    trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    hopeless = ("warm_start.min_success=0.49", "warm_start.max_success=0.5", "warm_start.max_steps=1")
    assert trainings.run(order(tmp_path, "name", overrides=hopeless)).code == 1
    assert "WarmStartTooWeak" in trainings.log()
    assert trainings.run(order(tmp_path, "name", overrides=("policies.team.base=/no/such/model",))).code == 1
    assert "neither a model folder nor a hub model" in trainings.log()
    assert list_runs(store) == []
    assert trainings.run(order(tmp_path, "name")).code == 0, trainings.log()
    assert outcome(store, "name") == uninterrupted


def test_a_moved_store_goes_on_where_it_lies(
    trainings: Trainings, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert trainings.run(order(first, "moved", overrides=("num_steps=2",))).code == 0, trainings.log()
    first.rename(second)
    store = LocalArtifactStore(second / "store")
    before = num_attempts(store)
    resumed = trainings.command(tmp_path, "resume", "moved", "--steps", "3", "--store", store.uri)
    assert resumed.returncode == 0, resumed.stderr
    assert not first.exists(), "nothing is written where the run was started"
    moved = outcome(store, "moved")
    moved["evaluations"] = [each for each in moved["evaluations"] if each["step"] != 2]  # where the first start ended
    assert moved == uninterrupted
    # Of the checkpoint after 3 updates 2 evaluations of 2 blocks; of step 2: 2 rollouts, 2 rewards, advantage, update, publish.
    assert num_attempts(store) == before + 2 + 4 + 7

    shorter = order(second, "moved", overrides=("num_steps=1",))
    assert trainings.run(shorter).code == 0, trainings.log()
    summary, document = json.loads(Path(shorter["summary"]).read_text()), run_document(store, "moved")
    assert num_attempts(store) == before + 2 + 4 + 7, "a run that has more steps than asked for computes nothing"
    last = document["steps"][-1]
    assert (summary["num_steps"], summary["evaluations"][-1]["step"]) == (3, 3)
    assert summary["checkpoint_digest"] == last["checkpoint_digest"]

    (copied,) = run_document(store, "moved")["steps"][-1]["checkpoint_uri"].values()
    weights = Path(copied.removeprefix("file://")) / "model" / "model.safetensors"
    assert weights.is_relative_to(second)
    weights.write_bytes(weights.read_bytes()[:-1])
    evaluated = trainings.command(tmp_path, "evaluate", "moved", "--problems", "2", "--store", store.uri)
    assert evaluated.returncode == 1
    assert str(weights.name) in evaluated.stderr


def test_a_restart_that_cannot_begin_leaves_the_run_as_it_was_and_one_that_can_is_one(
    trainings: Trainings, uninterrupted: dict[str, Any], whole_run: LocalArtifactStore, tmp_path: Path
) -> None:
    store = whole_run
    collect_garbage(store, keep_checkpoints=1, grace_seconds=0, dry_run=False)
    before = run_document(store, "whole")
    restart = ("resume", "whole", "--store", store.uri, "--from-stage", "update_policy", "--step")
    too_early = trainings.command(tmp_path, *restart, "1")
    assert too_early.returncode == 2
    assert "step 1 of run 'whole' cannot be restarted" in too_early.stderr
    assert trainings.command(tmp_path, *restart, "2", "--set", "environment.max_turns=0").returncode == 2
    assert run_document(store, "whole") == before
    for _ in range(2):
        assert trainings.command(tmp_path, *restart, "2").returncode == 0
    after = run_document(store, "whole")
    assert after["lineages"] == [{"from_step": 2, "from_stage": "update_policy"}]
    attempts = [key for key in store.list("runs/whole/steps/000002/") if "/attempts/" in key]
    updates = [key for key in attempts if "/update_policy-" in key]
    assert len(updates) == 2, "once as first started, once by both restarts"
    assert outcome(store, "whole") == uninterrupted
    removal = ("rm", "whole", "--store", store.uri, "--lineage", "1", "--yes")
    assert trainings.command(tmp_path, *removal).returncode == 0
    assert run_document(store, "whole") == before


@pytest.mark.parametrize("place", ["update_policy", "warm_start"])
def test_a_run_verifies_whole_and_the_remedy_for_its_damage_is_a_command_that_heals_it(
    trainings: Trainings, uninterrupted: dict[str, Any], whole_run: LocalArtifactStore, tmp_path: Path, place: str
) -> None:
    store = whole_run
    report = verify_run(store, "whole")
    assert (report.problems, report.removed) == ((), {})
    content = [each for folder in ("payloads/", "folders/") for each in store.scan(folder)]
    assert (report.num_objects, report.num_bytes) == (len(content), sum(each.num_bytes for each in content))

    [manifest] = (tmp_path / "store/runs").glob(
        f"*/steps/00000{int(place == 'update_policy')}/{place}-*/*/*/manifest.json"
    )
    [folder] = set(re.findall(r"folders/[0-9a-f]{64}", manifest.read_text()))
    weights = tmp_path / "store" / folder / "model" / "model.safetensors"
    content_before = weights.read_bytes()
    weights.write_bytes(content_before[:-1] + bytes([content_before[-1] ^ 1]))
    [problem] = verify_run(store, "whole").problems
    assert (problem.key, problem.state) == (f"{folder}/model/model.safetensors", "damaged")
    for key in re.findall(r"delete (\S+),", problem.remedy):
        store.delete(key)
    [resume] = re.findall(r"`troupe (.*)`", problem.remedy)
    resumed = trainings.command(tmp_path, *shlex.split(resume))
    assert resumed.returncode == 0, resumed.stderr
    assert verify_run(store, "whole").is_whole
    assert weights.read_bytes() == content_before
    assert outcome(store, "whole") == uninterrupted
