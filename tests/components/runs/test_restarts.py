"""A restart is recorded once, and only if it is possible."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.identity import config_key
from components.runs.gc import collect_garbage
from components.runs.lineages import read_lineages
from components.runs.restarts import Restart, record_restart
from components.runs.run import Run
from components.runs.session_records import begin_session, effective_run, end_session
from components.runs.step_records import step_manifests
from components.runs.steps import checkpoints_before, first_unfinished_step
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.tasks.stored_runs import config_in, finish, reread, store_run
from troupe.runs.documents import run_document


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalArtifactStore:
    return LocalArtifactStore(root)


def expect_refusal(run: Run, step: int, stage: str, match: str) -> None:
    store = LocalArtifactStore(Path(str(run.config.store.root)))
    before = list(store.list(f"runs/{run.run_id}/"))
    with pytest.raises(ConfigurationError, match=match):
        record_restart(store, run, Restart(step=step, stage=stage), PIPELINE)
    assert list(store.list(f"runs/{run.run_id}/")) == before, "a restart that cannot begin leaves nothing"


def test_a_restart_whose_checkpoint_was_collected_is_refused_with_the_steps_that_can(
    root: Path, store: LocalArtifactStore
) -> None:
    run = store_run(root, "r", num_finished=8, config=config_in(root, num_steps=8))
    collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=False)
    told = r"step 3 of run 'r' cannot be restarted: the checkpoint of team after 3 updates .*`troupe gc`.* Steps that can: 0, 7"
    expect_refusal(run, 3, "update_policy", told)
    document = run_document(store, "r")
    assert (document["lineages"], len(document["steps"])) == ([], 8)
    assert record_restart(store, run, Restart(step=7, stage="update_policy"), PIPELINE) == 1


@pytest.mark.parametrize(("step", "overlap"), [(0, "none"), (1, "one_step")])
def test_a_restart_that_would_begin_with_another_warm_start_is_refused_with_the_fields(
    root: Path, step: int, overlap: str
) -> None:
    run = store_run(root, "r", config=config_in(root, f"rollout.overlap={overlap}", "loss.importance_cap=2"))
    changes = ("warm_start.max_steps=70", "seed=3", "loss.clip_low=0.1")
    changed = config_in(root, f"rollout.overlap={overlap}", "loss.importance_cap=2", *changes)
    told = rf"step {step} of run 'r' cannot be restarted with seed: 0 -> 3; warm_start.max_steps: 60 -> 70: .* another --run"
    asked = run.model_copy(update={"config": changed})
    expect_refusal(asked, step, "collect_rollouts", told)
    store = LocalArtifactStore(root)
    assert record_restart(store, asked, Restart(step=2, stage="collect_rollouts"), PIPELINE) == 1


def test_the_same_restart_twice_is_one(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r")
    restart = Restart(step=1, stage="compute_rewards")
    assert record_restart(store, run, restart, PIPELINE) == 1
    assert record_restart(store, reread(store, "r", run.config), restart, PIPELINE) == 1
    assert [each.lineage for each in read_lineages(store, "r")] == [1]


def test_a_restart_beyond_the_steps_that_are_asked_for_names_how_many_to_ask_for(
    root: Path, store: LocalArtifactStore
) -> None:
    run = store_run(root, "r", num_finished=4, config=config_in(root, num_steps=4))
    asked = run.model_copy(update={"config": config_in(root, num_steps=3)})
    expect_refusal(
        asked, 3, "update_policy", r"--step 3: the run is asked for steps 0 to 2; ask for more with --steps 4"
    )


@pytest.mark.parametrize(
    ("step", "stage", "match"),
    [
        (1, "rewards", "stages are collect_rollouts, compute_rewards"),
        (3, "update_policy", "the run is asked for steps 0 to 2$"),
        (-1, "update_policy", "the run is asked for steps 0 to 2$"),
        (2, "update_policy", "1 steps of run 'r' are finished; restart one of 0 to 1"),
    ],
)
def test_a_restart_from_nowhere_is_refused(root: Path, step: int, stage: str, match: str) -> None:
    expect_refusal(store_run(root, "r", num_finished=1), step, stage, match)


@pytest.mark.parametrize(
    ("lost", "stage", "still_possible"),
    [
        ("collect_rollouts", "compute_rewards", "collect_rollouts"),
        ("compute_rewards", "compute_advantages", "update_policy"),
        ("compute_advantages", "update_policy", "publish_checkpoint"),
        ("update_policy", "publish_checkpoint", "update_policy"),
    ],
)
@pytest.mark.parametrize("damage", ["gone", "torn"])
def test_a_restart_that_would_read_what_is_lost_is_refused(
    root: Path, store: LocalArtifactStore, lost: str, stage: str, still_possible: str, damage: str
) -> None:
    run = store_run(root, "r", num_finished=2)
    (manifest,) = [each for each in step_manifests(store, run, 1) if each.stage == lost]
    ref = manifest.output
    if lost == "compute_advantages":
        ref = ref["batches"]["team"]
    if lost == "update_policy":
        ref = ref["checkpoint"]["folder"]
    file = root / ref["key"] if ref["kind"] != "folder" else root / ref["key"] / "weights"
    file.unlink() if damage == "gone" else file.write_bytes(file.read_bytes()[:-1])
    expect_refusal(run, 1, stage, f"the result of {lost} in step 1 is needed but lost .*--from-stage {lost} --step 1")
    assert record_restart(store, run, Restart(step=1, stage=still_possible), PIPELINE) == 1, (
        "what does not read it can begin"
    )


def test_a_restart_after_a_restart_says_how_to_take_that_back(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r")
    record_restart(store, run, Restart(step=1, stage="update_policy"), PIPELINE)
    expect_refusal(reread(store, "r", run.config), 2, "update_policy", "`troupe rm r --lineage 1 --store file:///")


def test_a_restart_that_failed_before_it_left_a_result_does_not_hide_what_is_finished(
    root: Path, store: LocalArtifactStore
) -> None:
    run = store_run(root, "r")
    end_session(store, "r", begin_session(store, run, PIPELINE), None)
    before = run_document(store, "r")
    assert (before["state"], len(before["steps"])) == ("completed", 3)
    record_restart(store, run, Restart(step=1, stage="update_policy"), PIPELINE)
    restarted = reread(store, "r", run.config)
    session = begin_session(store, restarted, PIPELINE)
    assert (run_document(store, "r")["state"], len(run_document(store, "r")["steps"])) == ("running", 1)
    end_session(store, "r", session, RuntimeError("out of memory"))
    assert run_document(store, "r") == before
    assert first_unfinished_step(store, restarted) == 1, "a resume goes on with the restart"
    finish(store, restarted, 1, checkpoints_before(store, restarted, 1), root)
    assert effective_run(store, restarted) == restarted
    assert len(run_document(store, "r")["steps"]) == 2
    assert store.read(config_key("r", 1)) is not None
