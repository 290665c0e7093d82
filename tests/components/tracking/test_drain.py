"""Publishing in a thread: it delays nothing, loses nothing, and reports its errors."""

import logging
import threading
import time
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.schema import IterationReport
from components.tracking.drain import OutboxDrain
from components.tracking.outbox import Outbox
from tests.components.tracking.memory import InMemoryTracker
from tests.components.tracking.reports import iteration

REWARD = "reward/plan_agent/mean"


@pytest.fixture
def outbox(tmp_path: Path) -> Outbox:
    return Outbox(LocalArtifactStore(tmp_path), "r")


class Slow(InMemoryTracker):
    """Blocks publishing until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = threading.Event()

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        self.released.wait(30)
        super().publish_iteration(report, timestamp_ms=timestamp_ms)


def test_a_slow_tracker_delays_nobody_and_a_flush_says_what_is_left(outbox: Outbox) -> None:
    tracker = Slow()
    drain = OutboxDrain(outbox, tracker)
    start = time.monotonic()
    for step in range(20):
        outbox.post_iteration(iteration("r", step))
        drain.poke()
    assert time.monotonic() - start < 1.0
    left = drain.flush(0.1)
    assert (left.num_pending, left.error) == (20, "publishing takes longer")
    tracker.released.set()
    assert drain.close(10.0, succeeded=True).num_pending == 0
    assert tracker.history("r", REWARD) == [(step, 2.0 + step) for step in range(20)]
    assert tracker.runs["r"].status == "FINISHED"


class Busy(InMemoryTracker):
    """Takes its time for each report."""

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        time.sleep(0.2)
        super().publish_iteration(report, timestamp_ms=timestamp_ms)


def test_a_busy_tracker_is_waited_for_while_it_takes_reports_and_not_after_an_interruption(
    outbox: Outbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("components.tracking.drain._SECONDS_BETWEEN_LINES", 0.3)
    drain = OutboxDrain(outbox, Busy())
    for step in range(15):
        outbox.post_iteration(iteration("r", step))
    assert 0 < drain.flush(0.5, extends=False).num_pending < 15
    with caplog.at_level(logging.INFO, logger="components.tracking.drain"):
        assert drain.close(1.0, succeeded=True).num_pending == 0
    lines = [record.message for record in caplog.records]
    assert lines
    assert all(line.endswith("reports are being published") for line in lines)


def test_reports_posted_while_others_are_published_all_arrive(outbox: Outbox) -> None:
    tracker = InMemoryTracker()
    drain = OutboxDrain(outbox, tracker)
    for step in range(300):
        outbox.post_iteration(iteration("r", step))
        drain.poke()
    assert drain.close(20.0).num_pending == 0
    assert tracker.history("r", REWARD) == [(step, 2.0 + step) for step in range(300)]


def test_an_outage_is_one_warning_and_one_line_at_its_end(outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    tracker = InMemoryTracker(available=False)
    drain = OutboxDrain(outbox, tracker, retry_seconds=0.02)
    with caplog.at_level(logging.INFO, logger="components.tracking.drain"):
        for step in range(3):
            outbox.post_iteration(iteration("r", step))
            drain.poke()
        assert drain.flush(0.2).num_pending == 3
        tracker.available = True
        assert drain.flush(5.0).error is None
        drain.close(5.0)
    levels = [record.levelname for record in caplog.records]
    assert levels == ["WARNING", "INFO"]
    assert tracker.history("r", REWARD) == [(0, 2.0), (1, 3.0), (2, 4.0)]


def test_what_is_pending_is_published_without_another_poke_once_the_tracker_is_back(outbox: Outbox) -> None:
    tracker = InMemoryTracker(available=False)
    drain = OutboxDrain(outbox, tracker, retry_seconds=0.02)
    outbox.post_iteration(iteration("r", 0))
    drain.poke()
    drain.flush(0.1)
    tracker.available = True
    deadline = time.monotonic() + 5
    while outbox.num_pending and time.monotonic() < deadline:
        time.sleep(0.01)
    assert outbox.num_pending == 0
    drain.close(5.0)


def test_a_run_that_could_not_be_published_is_not_marked_as_finished(outbox: Outbox) -> None:
    tracker = InMemoryTracker(available=False)
    drain = OutboxDrain(outbox, tracker)
    outbox.post_iteration(iteration("r", 0))
    report = drain.close(0.1, succeeded=True)
    assert report.num_pending == 1
    assert tracker.runs == {}


class Broken(InMemoryTracker):
    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        raise ZeroDivisionError("a fault of its own")


def test_an_unforeseen_error_is_logged_once_and_reported(outbox: Outbox, caplog: pytest.LogCaptureFixture) -> None:
    drain = OutboxDrain(outbox, Broken(), retry_seconds=0.01)
    outbox.post_iteration(iteration("r", 0))
    start = time.monotonic()
    report = drain.flush(20.0)
    assert (report.num_pending, report.error) == (1, "a fault of its own")
    assert time.monotonic() - start < 5.0, "what waiting cannot cure is not waited for"
    time.sleep(0.1)
    drain.close(1.0)
    assert sum("ZeroDivisionError" in (record.exc_text or "") for record in caplog.records) == 1
