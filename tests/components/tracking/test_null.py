"""Runs without an MLflow server."""

import pytest

from components.errors import TrackingUnavailable
from components.tracking.base import Tracker
from components.tracking.null import NoTracker
from tests.components.tracking.reports import evaluation, iteration, team, trace


def publish_everything(tracker: Tracker) -> list[str]:
    tracker.open_run("r", {}, {})
    tracker.publish_iteration(iteration("r", 0), timestamp_ms=1)
    tracker.publish_evaluation("r", evaluation(0), model="line", timestamp_ms=1)
    tracker.publish_checkpoint("r", team(1, "d"))
    tracker.publish_traces("r", [trace("a")], timestamp_ms=1)
    tracker.publish_file("r", "a.gif", b"")
    tracker.mark_files("r", team(1, "d"), are_there=False)
    tracker.finish_run("r", succeeded=True)
    return tracker.remove_run("r")


def test_without_tracking_reports_are_accepted_and_shown_nowhere() -> None:
    tracker = NoTracker()
    tracker.check()
    assert publish_everything(tracker) == []
    assert tracker.run_url("r") is None


@pytest.mark.parametrize(
    "verb", ["check", "open_run", "publish_iteration", "publish_traces", "finish_run", "remove_run"]
)
def test_where_a_server_is_missing_reports_wait(verb: str) -> None:
    tracker = NoTracker("start one")
    assert tracker.run_url("r") is None
    with pytest.raises(TrackingUnavailable, match="start one"):
        getattr(tracker, verb)(*(["r"] if verb == "remove_run" else []))
