"""Checks before a run starts or resumes: the store's format, the configuration, versions of stages, complete records."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from components.artifacts.format import FORMAT
from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigDrift, ConfigurationError, StoreRefused
from components.identity import config_key
from components.machine.process_ids import process_of
from components.runs.lineages import start_lineage
from components.runs.provenance import Provenance, list_changed_libraries, list_changed_stages, provenance
from components.runs.resume_checks import resume_warnings, surplus_line, validate_start
from components.runs.run import Run
from components.runs.session_records import SessionStart, begin_session, end_session, session_records
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.tasks.stored_runs import config_in, reread, store_run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(root: Path) -> LocalArtifactStore:
    return LocalArtifactStore(root)


def rewritten(store: LocalArtifactStore, start: SessionStart, change: Callable[[SessionStart], SessionStart]) -> None:
    """Change a session's record."""
    key = f"runs/r/sessions/{start.number:04d}/start.json"
    store.delete(key)
    store.create(key, change(start).model_dump_json().encode())


def record_provenance(store: LocalArtifactStore, run: Run, change: Callable[[Provenance], Provenance]) -> None:
    """An ended session of another version of Troupe."""
    start = begin_session(store, run, PIPELINE)
    changed = change(start.provenance)
    rewritten(store, start, lambda each: each.model_copy(update={"provenance": changed}))
    end_session(store, "r", start, None)


def older_rewards(found: Provenance) -> Provenance:
    return found.model_copy(update={"stage_versions": {**found.stage_versions, "compute_rewards": 0}})


def test_a_start_of_nothing_may_begin_and_writes_nothing(root: Path, store: LocalArtifactStore) -> None:
    run = validate_start(store, "r", config_in(root), PIPELINE)
    assert (run.lineages, resume_warnings(store, run)) == ((), [])
    assert not root.exists()


def test_another_configuration_is_refused_with_the_commands_that_go_on(root: Path, store: LocalArtifactStore) -> None:
    store_run(root, "r")
    with pytest.raises(ConfigDrift, match=rf"seed: 0 -> 9.*`troupe resume r --store {root.as_uri()}`"):
        validate_start(store, "r", config_in(root, "seed=9"), PIPELINE)


def test_a_moved_store_is_no_other_configuration_and_keeps_every_result(root: Path, tmp_path: Path) -> None:
    store_run(root, "r", num_finished=2)
    root.rename(tmp_path / "moved")
    moved = LocalArtifactStore(tmp_path / "moved")
    run = validate_start(moved, "r", config_in(tmp_path / "moved"), PIPELINE)
    assert store_run(tmp_path / "moved", "r", num_finished=2) == run
    attempts = [key for key in moved.list("runs/") if "/attempts/" in key]
    assert len(attempts) == 1 + 2 * 4, "a key of a stage names no place: nothing was computed again"


def test_a_store_of_a_newer_format_is_refused(root: Path, store: LocalArtifactStore) -> None:
    store.create("format.json", b'{"format": %d}' % (FORMAT + 1))
    with pytest.raises(StoreRefused, match="knows format"):
        validate_start(store, "r", config_in(root), PIPELINE)


def test_what_an_interrupted_removal_left_is_no_run_to_go_on_with(root: Path, store: LocalArtifactStore) -> None:
    store_run(root, "r")
    store.delete(config_key("r"))
    with pytest.raises(
        ConfigurationError, match=rf"removed only in part: finish it with `troupe rm r --store {root.as_uri()}`"
    ):
        validate_start(store, "r", config_in(root), PIPELINE)


def test_results_of_other_stage_versions_are_not_mixed(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=2)
    record_provenance(store, run, older_rewards)
    told = r"compute_rewards 0 -> \d.*`troupe resume r --store .* --from-stage collect_rollouts --step 2`"
    with pytest.raises(ConfigurationError, match=told):
        validate_start(store, "r", run.config, PIPELINE)
    start_lineage(
        store,
        "r",
        from_step=2,
        from_stage="collect_rollouts",
        repeats=PIPELINE.repeats("collect_rollouts"),
        config=run.config,
        stage_versions=PIPELINE.versions,
    )
    restarted = validate_start(store, "r", run.config, PIPELINE)
    record_provenance(store, restarted, lambda found: found)
    assert validate_start(store, "r", run.config, PIPELINE) == restarted


def test_a_restart_of_older_versions_is_not_gone_on_with_either(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=2)
    older = PIPELINE.versions | {"update_policy": 0}
    start_lineage(
        store,
        "r",
        from_step=1,
        from_stage="collect_rollouts",
        repeats=PIPELINE.repeats("collect_rollouts"),
        config=run.config,
        stage_versions=older,
    )
    with pytest.raises(ConfigurationError, match=r"update_policy 0 -> \d.* --step 1`"):
        validate_start(store, "r", run.config, PIPELINE)


def test_a_finished_run_is_read_by_any_version(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=3)
    record_provenance(store, run, older_rewards)
    assert validate_start(store, "r", run.config, PIPELINE) == run


@pytest.mark.parametrize("name", ["start", "end"])
def test_a_damaged_record_of_a_session_holds_nobody_up(name: str, root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=1)
    end_session(store, "r", begin_session(store, run, PIPELINE), None)
    key = f"runs/r/sessions/0001/{name}.json"
    store.delete(key)
    store.create(key, b"{")
    assert validate_start(store, "r", run.config, PIPELINE) == run
    assert resume_warnings(store, run) == []


def test_other_libraries_are_told_in_one_line(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=1)
    record_provenance(
        store, run, lambda found: found.model_copy(update={"libraries": {**found.libraries, "torch": "2.1.0"}})
    )
    (line,) = resume_warnings(store, run)
    assert line.startswith("run r was computed with other libraries until now: torch 2.1.0 -> ")


def test_whoever_is_at_work_is_named_until_he_is_done(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=1)
    rival = begin_session(store, run, PIPELINE)
    (line,) = resume_warnings(store, run)
    assert line.startswith(
        f"{rival.host} (process {rival.pid}) has worked on run r since {rival.started_at}; joining it"
    )
    elsewhere = begin_session(store, run, PIPELINE)
    rewritten(store, elsewhere, lambda each: each.model_copy(update={"host": "another-host"}))
    assert [line.split()[0] for line in resume_warnings(store, run)] == [rival.host, "another-host"]
    for session in (rival, elsewhere):
        end_session(store, "r", session, None)
    assert resume_warnings(store, run) == []


def test_a_killed_process_is_at_work_no_more(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r", num_finished=1)
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        gone = str(process_of(child.pid))
    rewritten(store, begin_session(store, run, PIPELINE), lambda each: each.model_copy(update={"process": gone}))
    assert resume_warnings(store, run) == []


def test_a_session_records_what_computes(root: Path, store: LocalArtifactStore) -> None:
    run = store_run(root, "r")
    begin_session(store, run, PIPELINE)
    begin_session(store, reread(store, "r", run.config), PIPELINE)
    first, second = session_records(store, "r")
    assert first.provenance == second.provenance == provenance(PIPELINE)
    found = provenance(PIPELINE)
    assert set(found.stage_versions) == {
        "warm_start", "collect_rollouts", "compute_rewards", "compute_advantages", "update_policy", "publish_checkpoint",
        "play_suite", "evaluate_policy",
    }  # fmt: skip
    assert {"python", "torch", "transformers", "deepspeed", "peft", "numpy"} <= set(found.libraries)
    assert found.commit is None or len(found.commit) == 40
    tags = found.tags()
    assert {"troupe.version", "troupe.stage_versions", "troupe.torch", "troupe.python"} <= set(tags)
    assert tags.get("troupe.commit", "").removesuffix("-dirty") == (found.commit or "")


def test_changes_are_told_by_name_and_both_versions() -> None:
    assert list_changed_stages({"update_policy": 1, "gone": 3}, {"update_policy": 2, "warm_start": 1}) == [
        "update_policy 1 -> 2"
    ]
    before = {"torch": "2.13.0+cpu", "numpy": "2.1.0", "python": "3.11.2", "peft": "0.21.0"}
    after = {"torch": "2.13.1+cu128", "numpy": "2.2.0", "python": "3.13.0"}
    assert list_changed_libraries(before, after) == ["numpy 2.1.0 -> 2.2.0", "python 3.11.2 -> 3.13.0"]


@pytest.mark.parametrize(("asked_for", "lines"), [(1, 1), (2, 0), (3, 0)])
def test_a_run_with_more_steps_than_asked_for_says_so(
    asked_for: int, lines: int, root: Path, store: LocalArtifactStore
) -> None:
    run = store_run(root, "r", num_finished=2)
    wanted = run.model_copy(update={"config": run.config.model_copy(update={"num_steps": asked_for})})
    found = surplus_line(store, wanted)
    assert len(found) == lines
    assert all("has 2 steps already, more than the 1 asked for" in line for line in found)
