"""Rollouts of old steps go where a run says so; what a resume, a restart or a reader needs stays, or its loss is named."""

from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.runs.gc import GarbageReport, collect_garbage
from components.runs.restarts import Restart, record_restart
from components.runs.run import Run
from components.runs.step_records import stage_of, step_of
from components.runs.verify import verify_run
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.runs.whole_runs import ADAPTER, whole_run
from tests.tasks.stored_runs import config_in, reread
from troupe.runs.documents import run_document
from troupe.viewing.recorded import read_recorded

NUM_STEPS = 4
ROLLOUT_STAGES = tuple(PIPELINE.roles.expiring_with("rollouts"))


def run_keeping(root: Path, rollouts: str) -> tuple[LocalArtifactStore, Run]:
    run = whole_run(root, num_steps=NUM_STEPS, overrides=(ADAPTER, f"retention.rollouts={rollouts}"))
    return LocalArtifactStore(root), run


def collect(store: LocalArtifactStore) -> GarbageReport:
    return collect_garbage(store, grace_seconds=0, dry_run=False)


def steps_with_rollouts(store: LocalArtifactStore) -> set[int]:
    """The steps of which any record of a rollout stage is there; of each of them all stages must be."""
    found = {(step_of(key), stage_of(key)) for key in store.list("runs/r/steps/") if stage_of(key) in ROLLOUT_STAGES}
    steps = {step for step, _ in found}
    assert found == {(step, stage) for step in steps for stage in ROLLOUT_STAGES}
    return steps


@pytest.mark.parametrize(("kept", "stay"), [("null", {0, 1, 2, 3}), ("1", {3}), ("3", {1, 2, 3}), ("9", {0, 1, 2, 3})])
def test_the_newest_finished_steps_keep_their_rollouts_and_nothing_else_is_lost(
    tmp_path: Path, kept: str, stay: set[int]
) -> None:
    store, _ = run_keeping(tmp_path / "store", kept)
    shown, payloads = run_document(store, "r"), set(store.list("payloads/"))
    report = collect(store)
    assert steps_with_rollouts(store) == stay
    num_gone = NUM_STEPS - len(stay)
    assert report.num_rollouts == num_gone * len(ROLLOUT_STAGES)
    assert len(payloads - set(store.list("payloads/"))) == num_gone * 4, "a block, rollouts, rewards and a batch a step"
    assert run_document(store, "r") == shown
    assert verify_run(store, "r").problems == ()
    assert collect(store).num_objects == 0


def test_a_step_that_a_resume_goes_on_with_loses_nothing(tmp_path: Path) -> None:
    store, run = run_keeping(tmp_path / "store", "1")
    record_restart(store, run, Restart(step=1, stage="update_policy"), PIPELINE)
    assert collect(store).num_rollouts == 0, "step 1 reads its batches again, and step 0 is the newest finished one"
    again = reread(store, "r", run.config)
    record_restart(store, again, Restart(step=1, stage="compute_rewards"), PIPELINE)


class KilledStore(LocalArtifactStore):
    """A store whose user is killed after a number of deletions."""

    num_left = 0

    def delete(self, key: str) -> None:
        if self.num_left == 0:
            raise KeyboardInterrupt
        self.num_left -= 1
        super().delete(key)


def test_a_collection_that_was_killed_anywhere_leaves_no_damage(tmp_path: Path) -> None:
    run_keeping(tmp_path / "store", "2")
    killed = KilledStore(tmp_path / "store")
    for num_deleted in range(200):
        killed.num_left = 1
        try:
            collect(killed)
        except KeyboardInterrupt:
            assert verify_run(killed, "r").problems == (), num_deleted
            continue
        break
    assert num_deleted > 2 * len(ROLLOUT_STAGES)
    assert steps_with_rollouts(killed) == {2, 3}


def test_what_reads_rollouts_that_are_gone_names_the_step_and_what_is_there(tmp_path: Path) -> None:
    store, run = run_keeping(tmp_path / "store", "2")
    collect(store)
    with pytest.raises(ConfigurationError, match=r"rollouts of step 1 .* were removed .* steps 2 to 3 are there"):
        read_recorded(store, "r", 1)
    told = r"compute_rewards: the results of collect_rollouts in step 1 .* retention.rollouts 2\); .*collect_rollouts --step 1"
    with pytest.raises(ConfigurationError, match=told):
        record_restart(store, run, Restart(step=1, stage="compute_rewards"), PIPELINE)
    assert record_restart(store, run, Restart(step=1, stage="collect_rollouts"), PIPELINE) == 1


def test_keeping_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"retention\.rollouts.*0"):
        config_in(tmp_path, "retention.rollouts=0")
