from datetime import UTC, datetime
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.machine.process_ids import this_process
from components.runs.lineages import Lineage
from components.runs.run import Run
from components.runs.session_records import begin_session, end_session, run_state
from components.runs.steps import finish_step, first_step, first_unfinished_step, read_finished_step
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE

CONFIG = preset_config("tiny")


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path)


def checkpoints(step: int, digest: str = "d") -> dict[str, CheckpointRef]:
    folder = ArtifactRef(kind="folder", key="k", sha256="s", num_bytes=1)
    ref = CheckpointRef(policy="team", step=step, folder=folder, weights_digest=digest, optimizer_digest="o")
    return {"team": ref}


def restart(run: Run, step: int, stage: str) -> Run:
    lineage = Lineage(
        lineage=len(run.lineages) + 1,
        from_step=step,
        from_stage=stage,
        repeats=PIPELINE.repeats(stage),
        started_at=datetime.now(UTC),
        config=CONFIG,
    )
    return run.model_copy(update={"lineages": (*run.lineages, lineage)})


def test_steps_are_finished_one_after_the_other(store: LocalArtifactStore) -> None:
    run = Run(run_id="r", config=CONFIG)
    assert first_unfinished_step(store, run) == 0
    for step in range(3):
        assert read_finished_step(store, run, step) is None
        finish_step(store, run, step, checkpoints(step + 1))
        assert first_unfinished_step(store, run) == step + 1
    assert read_finished_step(store, run, 1) == checkpoints(2)


def test_who_finishes_a_step_second_gets_what_the_first_recorded(store: LocalArtifactStore) -> None:
    run = Run(run_id="r", config=CONFIG)
    finish_step(store, run, 0, checkpoints(1, "first"))
    assert finish_step(store, run, 0, checkpoints(1, "second")) == checkpoints(1, "first")


def test_a_retried_flow_run_loops_from_where_its_first_attempt_did(store: LocalArtifactStore) -> None:
    run = Run(run_id="r", config=CONFIG)
    finish_step(store, run, 0, checkpoints(1))
    assert first_step(store, run, flow_run_id="a") == 1
    finish_step(store, run, 1, checkpoints(2))
    assert first_step(store, run, flow_run_id="a") == 1
    assert first_step(store, run, flow_run_id="b") == 2


def test_a_restart_leaves_earlier_steps_finished_and_later_ones_open(store: LocalArtifactStore) -> None:
    run = Run(run_id="r", config=CONFIG)
    for step in range(3):
        finish_step(store, run, step, checkpoints(step + 1))
    again = restart(run, 1, "compute_rewards")
    assert first_unfinished_step(store, again) == 1
    finish_step(store, again, 1, checkpoints(2, "other"))
    assert read_finished_step(store, run, 1) == checkpoints(2), "the earlier output stays readable"
    assert read_finished_step(store, again, 1) == checkpoints(2, "other")


def test_the_state_of_a_run_follows_its_newest_session(store: LocalArtifactStore) -> None:
    run = Run(run_id="r", config=CONFIG)
    session = begin_session(store, run, PIPELINE)
    assert run_state(store, run, 0).name == "running"
    end_session(store, "r", session, ValueError("no"))
    assert (run_state(store, run, 0).name, run_state(store, run, 0).error) == ("failed", "ValueError: no")
    session = begin_session(store, run, PIPELINE)
    end_session(store, "r", session, None)
    assert run_state(store, run, CONFIG.num_steps).name == "completed"
    assert run_state(store, run, CONFIG.num_steps - 1).name == "interrupted"


def test_a_session_whose_process_is_gone_was_interrupted(store: LocalArtifactStore) -> None:
    run = Run(run_id="r", config=CONFIG)
    start = begin_session(store, run, PIPELINE)
    key = f"runs/r/sessions/{start.number:04d}/start.json"
    store.delete(key)
    store.create(
        key, start.model_copy(update={"process": str(this_process()._replace(started=1))}).model_dump_json().encode()
    )
    assert run_state(store, run, 1).name == "interrupted"
