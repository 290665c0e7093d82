"""The contract of trackers: publishing twice is the same as once."""

import pytest

from components.tracking.mlflow import MlflowTracker
from tests.components.tracking.conftest import Tracked
from tests.components.tracking.reports import evaluation, iteration


@pytest.fixture
def run_id(request: pytest.FixtureRequest) -> str:
    return request.node.originalname.replace("_", "-")[:50].rstrip("-")


def test_a_service_that_answers_passes_its_check(tracked: Tracked) -> None:
    tracked.tracker.check()


def test_metrics_published_twice_are_there_once(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.open_run(run_id, {}, {})
    for _ in range(2):
        for step in range(3):
            tracked.tracker.publish_iteration(iteration(run_id, step), timestamp_ms=1_000 + step)
    assert tracked.read.history(run_id, "reward/plan_agent/mean") == [(0, 2.0), (1, 3.0), (2, 4.0)]
    assert tracked.read.history(run_id, "rollout/success_rate") == [(0, 0.0), (1, 0.01), (2, 0.02)]
    assert tracked.read.history(run_id, "time/update_policy_seconds") == [(0, 0.5), (1, 0.5), (2, 0.5)]


def test_an_evaluation_published_twice_is_there_once(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.open_run(run_id, {}, {})
    for _ in range(2):
        tracked.tracker.publish_evaluation(run_id, evaluation(4), timestamp_ms=99)
    assert tracked.read.history(run_id, "eval/greedy/success_rate") == [(4, 0.75)]
    assert tracked.read.history(run_id, "eval/greedy/repair_rate") == []


def test_publishing_needs_no_opened_run(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.publish_iteration(iteration(run_id, 5), timestamp_ms=1)
    assert tracked.read.history(run_id, "reward/plan_agent/mean") == [(5, 7.0)]


def test_a_checkpoint_is_one_version_and_knows_its_parent(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.open_run(run_id, {}, {})
    for _ in range(2):
        for step, digest in ((1, "aa"), (2, "bb"), (2, "cc")):
            tracked.tracker.publish_checkpoint(
                run_id, policy="team", step=step, weights_digest=digest, folder_uri=f"s3://b/folders/{digest}"
            )
    assert tracked.read.versions(run_id, "team") == [
        (1, 1, "aa", "s3://b/folders/aa", None),
        (2, 2, "bb", "s3://b/folders/bb", 1),
        (3, 2, "cc", "s3://b/folders/cc", 2),
    ]


def test_a_checkpoint_without_files_is_marked_and_unmarked(tracked: Tracked, run_id: str) -> None:
    for step in (1, 2):
        tracked.tracker.publish_checkpoint(
            run_id, policy="team", step=step, weights_digest="aa", folder_uri=f"s3://b/folders/{step}"
        )
    for _ in range(2):
        tracked.tracker.mark_files(run_id, policy="team", step=1, weights_digest="aa", are_there=False)
    tracked.tracker.mark_files(run_id, policy="team", step=9, weights_digest="aa", are_there=False)
    assert tracked.read.files(run_id, "team") == {1: False, 2: True}
    tracked.tracker.mark_files(run_id, policy="team", step=1, weights_digest="aa", are_there=True)
    assert tracked.read.files(run_id, "team") == {1: True, 2: True}


def test_a_run_ends_and_is_opened_again_with_its_first_parameters(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.open_run(run_id, {"num_steps": "10", "seed": "3"}, {"troupe.preset": "tiny"})
    tracked.tracker.finish_run(run_id, succeeded=False)
    assert tracked.read.status(run_id) == "FAILED"
    tracked.tracker.open_run(run_id, {"num_steps": "20", "seed": "3", "new": "x"}, {})
    assert tracked.read.status(run_id) == "RUNNING"
    assert tracked.read.params(run_id) == {"num_steps": "10", "seed": "3", "new": "x"}
    tracked.tracker.finish_run(run_id, succeeded=True)
    assert tracked.read.status(run_id) == "FINISHED"


def test_a_second_tracker_finds_the_same_run(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.publish_iteration(iteration(run_id, 0), timestamp_ms=1)
    other = tracked.tracker
    if isinstance(other, MlflowTracker):
        other = MlflowTracker(other._url, other._experiment, register_models=True)
    other.open_run(run_id, {}, {})
    other.publish_iteration(iteration(run_id, 0), timestamp_ms=1)
    assert tracked.read.history(run_id, "reward/plan_agent/mean") == [(0, 2.0)]


def test_a_removed_run_is_gone_with_its_models_and_no_other(tracked: Tracked, run_id: str) -> None:
    beside = f"{run_id}.other"  # its models' names have the same prefix
    for name in (run_id, beside):
        tracked.tracker.open_run(name, {"seed": "3"}, {})
        tracked.tracker.publish_checkpoint(name, policy="team", step=1, weights_digest="aa", folder_uri="s3://b/aa")
    removed = tracked.tracker.remove_run(run_id)
    assert [each.split()[0] for each in removed] == ["run", "model"]
    assert removed[1] == f"model {run_id}.team"
    assert tracked.tracker.remove_run(run_id) == []
    assert len(tracked.read.versions(beside, "team")) == 1
    tracked.tracker.open_run(run_id, {"seed": "4"}, {})
    assert tracked.read.params(run_id) == {"seed": "4"}, "the name is free for another configuration"
    assert tracked.read.versions(run_id, "team") == []
