"""Who plays in a night: weights under a name, also those from before a restart."""

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import StoreConfig
from components.errors import ArtifactMissing, ConfigurationError
from components.evaluation.nightly import NightlySuite
from components.evaluation.promotion import Contestant
from components.evaluation.subjects import RegisteredSubject, RunSubject
from components.evaluation.suites import Suite
from components.runs.restarts import Restart, record_restart
from components.runs.stored_runs import read_run
from components.session.team_weights import digest_team, read_weights
from components.tracking.mlflow_registry import TeamVersion
from flows.evaluate import find_stored_run
from flows.nightly_runs import (
    active_runs,
    find_contestant,
    find_exact_run,
    is_there,
    list_unplayed_runs,
    newest_checkpoints,
)
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.runs import whole_runs
from tests.components.runs.whole_runs import resume, whole_run


@pytest.fixture
def restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalArtifactStore:
    """The store of a run whose second step a restart has given other weights."""
    store = LocalArtifactStore(tmp_path / "store")
    run = whole_run(tmp_path / "store", num_steps=2)
    changed = run.config.rewards.model_copy(update={"team_weight": 4.0})
    config = run.config.model_copy(update={"rewards": changed})
    record_restart(store, run.model_copy(update={"config": config}), Restart(stage="compute_rewards", step=1), PIPELINE)
    made = whole_runs.checkpoint

    def other(*args: Any) -> CheckpointRef:
        found = made(*args)
        return found.model_copy(update={"weights_digest": f"other{found.step}"})

    monkeypatch.setattr(whole_runs, "checkpoint", other)
    resume(store, tmp_path / "store")
    return store


def test_weights_are_found_under_their_name_before_and_after_a_restart(
    restarted: LocalArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = StoreConfig(kind="local", root=str(tmp_path / "store"))
    now = read_run(restarted, "r")
    before = read_weights(restarted, now.model_copy(update={"lineages": ()}), 2)
    after = read_weights(restarted, now, 2)
    assert None not in (before, after)
    assert before != after
    assert read_weights(restarted, now, 3) is None
    found = {weights: find_exact_run(kept, weights, RunSubject("r", 2)) for weights in (before, after, None)}
    assert [len(run.lineages) for run, _ in found.values()] == [0, 1, 1]
    assert find_contestant(kept, "r") == Contestant(name="r@2", weights=after)
    assert find_contestant(kept, "expert") == Contestant(name="expert")
    with pytest.raises(ArtifactMissing, match="r@2: its weights 0123abcd are gone"):
        find_exact_run(kept, "0123abcd", RunSubject("r", 2))
    assert is_there(kept, Contestant(name="r@2", weights=before))
    assert not any(is_there(kept, each) for each in (Contestant(name="r@2", weights="x"), Contestant(name="s@2")))

    def count_lineages(digest: str) -> int:
        version = TeamVersion(
            model="tiny", version=3, run_id="r", step=2, weights_digests={"team": digest}, folder_uris={}
        )
        monkeypatch.setattr("flows.evaluate.resolve_model", lambda uri: version)
        return len(find_stored_run(kept, RegisteredSubject("tiny@champion"))[0].lineages)

    assert (count_lineages("w2"), count_lineages("other2")) == (0, 1)
    with pytest.raises(ConfigurationError, match=r"models:/tiny@champion: version 3 has other weights than step 2"):
        count_lineages("gone")
    shutil.rmtree(tmp_path / "store/folders")
    assert not is_there(kept, Contestant(name="r@2", weights=before))


def test_the_digest_of_a_team_is_that_of_the_registry() -> None:
    from tests.components.tracking.reports import team

    registered = team(3, "w3")
    refs = {
        policy: CheckpointRef.model_construct(weights_digest=files.weights_digest)
        for policy, files in registered.policies.items()
    }
    assert digest_team(refs) == registered.digest


def test_a_suite_plays_the_newest_weights_and_the_night_names_whom_nobody_plays(
    restarted: LocalArtifactStore, tmp_path: Path
) -> None:
    active = list(active_runs(restarted, datetime.now(UTC).date(), 7))
    (run,) = active
    suite = Suite(environment=run.config.environment)
    (newest,) = newest_checkpoints(restarted, NightlySuite(name="n", suite=suite), active)
    assert newest == Contestant(name="r@2", weights=read_weights(restarted, run, 2))
    assert list(newest_checkpoints(restarted, NightlySuite(name="n", suite=suite, presets=("other",)), active)) == []
    assert list(list_unplayed_runs(restarted, active, [])) == ["r (environment plan_path)"]
    (tmp_path / "store/runs/r/config.json").write_text("{")
    assert list(active_runs(restarted, datetime.now(UTC).date(), 7)) == [], "one damaged run ends no night"
