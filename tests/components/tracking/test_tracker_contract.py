"""The contract of trackers: publishing twice is the same as once."""

import pytest

from components.tracking.base import ProblemSet
from components.tracking.mlflow import MlflowTracker
from tests.components.tracking.conftest import EXPERIMENT, Tracked
from tests.components.tracking.reports import evaluation, iteration, team, trace


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
        tracked.tracker.publish_evaluation(run_id, evaluation(4), model="line", timestamp_ms=99)
    assert tracked.read.history(run_id, "eval/greedy_success_rate") == [(4, 0.75)]
    assert tracked.read.history(run_id, "eval/greedy/repair_rate") == []


def test_publishing_needs_no_opened_run(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.publish_iteration(iteration(run_id, 5), timestamp_ms=1)
    assert tracked.read.history(run_id, "reward/plan_agent/mean") == [(5, 7.0)]


def test_a_checkpoint_is_one_version_and_knows_its_parent(tracked: Tracked, run_id: str) -> None:
    tracked.tracker.open_run(run_id, {}, {})
    for _ in range(2):
        for step, digest in ((1, "aa"), (2, "bb"), (2, "cc")):
            tracked.tracker.publish_checkpoint(run_id, team(step, digest, model=run_id))
    assert tracked.read.versions(run_id, run_id) == [
        (1, 1, "aa", "s3://b/folders/aa", None),
        (2, 2, "bb", "s3://b/folders/bb", 1),
        (3, 2, "cc", "s3://b/folders/cc", 2),
    ]


def test_a_checkpoint_without_files_is_marked_and_unmarked(tracked: Tracked, run_id: str) -> None:
    for step in (1, 2):
        tracked.tracker.publish_checkpoint(run_id, team(step, "aa"))
    for _ in range(2):
        tracked.tracker.mark_files(run_id, team(1, "aa"), are_there=False)
    tracked.tracker.mark_files(run_id, team(9, "aa"), are_there=False)
    assert tracked.read.files(run_id) == {1: False, 2: True}
    tracked.tracker.mark_files(run_id, team(1, "aa"), are_there=True)
    assert tracked.read.files(run_id) == {1: True, 2: True}


def test_episodes_published_twice_are_there_once(tracked: Tracked, run_id: str) -> None:
    for _ in range(2):
        tracked.tracker.publish_traces(run_id, [trace("0/a"), trace("0/b")], timestamp_ms=1_700_000_000_000)
    tracked.tracker.publish_traces(run_id, [trace("1/a")], timestamp_ms=1_700_000_001_000)
    assert tracked.read.traces(run_id) == ["0/a", "0/b", "1/a"]


def test_a_file_is_under_its_name_and_the_last_of_a_name_counts(tracked: Tracked, run_id: str) -> None:
    for content in (b"GIF89a first", b"GIF89a last"):
        tracked.tracker.publish_file(run_id, "episodes/000050-sample.gif", content)
    assert tracked.read.file(run_id, "episodes/000050-sample.gif") == b"GIF89a last"


def test_the_problems_of_a_run_are_recorded_once(tracked: Tracked, run_id: str) -> None:
    problems = ProblemSet(name="plan_path/train", digest="0123", purpose="training", source={"size": 5})
    for _ in range(2):
        tracked.tracker.open_run(run_id, {}, {}, [problems])
    assert tracked.read.problems(run_id) == [("plan_path/train", "0123", "training")]


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
        other = MlflowTracker(other.server.url, EXPERIMENT, register_models=True)
    other.open_run(run_id, {}, {})
    other.publish_iteration(iteration(run_id, 0), timestamp_ms=1)
    assert tracked.read.history(run_id, "reward/plan_agent/mean") == [(0, 2.0)]


def test_a_removed_run_is_gone_with_its_models_and_no_other(tracked: Tracked, run_id: str) -> None:
    beside = f"{run_id}.other"  # its models' names have the same prefix
    for name in (run_id, beside):
        tracked.tracker.open_run(name, {"seed": "3"}, {})
        tracked.tracker.publish_checkpoint(name, team(1, "aa", model=name))
    removed = tracked.tracker.remove_run(run_id)
    assert [each.split()[0] for each in removed] == ["run", "model"]
    assert removed[1] == f"model {run_id}"
    assert tracked.tracker.remove_run(run_id) == []
    assert len(tracked.read.versions(beside, beside)) == 1
    tracked.tracker.open_run(run_id, {"seed": "4"}, {})
    assert tracked.read.params(run_id) == {"seed": "4"}, "the name is free for another configuration"
    assert tracked.read.versions(run_id, run_id) == []
