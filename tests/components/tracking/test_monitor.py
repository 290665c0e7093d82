"""The monitor loses nothing: many threads, a log that cannot be written, listeners and sinks that fail, a cut-off line."""

import json
import threading
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.tracking.monitor import Alert, Bound, Monitor, Update, read_log, tracker_sink
from tests.components.tracking.memory import InMemoryTracker

ERRORS = Bound(metric="error_rate", alert="high_error_rate", severity="critical", highest=0.05)


def test_stop_writes_all_that_many_threads_sent(tmp_path: Path) -> None:
    monitor = Monitor(log_file=tmp_path / "logs" / "m.json", interval_seconds=0.005, history=10)
    monitor.start()
    threads = [
        threading.Thread(target=lambda at=at: [monitor.update({"n": at * 100 + i}) for i in range(100)])  # type: ignore[misc]
        for at in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monitor.stop()
    assert sorted(each.metrics["n"] for each in read_log(tmp_path / "logs" / "m.json")) == list(range(800))
    assert (monitor.report()["num_updates"], monitor.report()["metrics"]["n"]["count"]) == (800, 10)
    with pytest.raises(ConfigurationError, match="call start"):
        monitor.update({"n": 1})


def test_a_log_that_cannot_be_written_is_told_and_tried_again(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.write_text("a file in its place")
    monitor = Monitor(log_file=folder / "m.json", interval_seconds=60)
    monitor.start()
    monitor.update({"n": 1})
    monitor.flush()
    monitor.update({"n": 2})
    with pytest.raises(OSError, match="2 updates of the monitor are not in"):
        monitor.stop()
    folder.unlink()
    with monitor:
        monitor.update({"n": 3})
    assert [each.metrics["n"] for each in read_log(folder / "m.json")] == [1, 2, 3]


def test_alerts_come_once_for_each_breach_and_a_failing_listener_hinders_none() -> None:
    heard: list[Alert] = []
    monitor = Monitor(bounds=[ERRORS, Bound(metric="share", alert="low", lowest=0.1)], sinks=[lambda _: 1 / 0])
    monitor.listen(lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    monitor.listen(heard.append)
    with monitor:
        monitor.update({"error_rate": 0.05, "share": 0.1})
        assert not heard
        monitor.update({"error_rate": 0.2})
        monitor.update({"share": 0.0, "other": 9.0})
    assert [(each.type, each.severity) for each in heard] == [("high_error_rate", "critical"), ("low", "warning")]
    assert heard[0].message == "error_rate 0.2: above 0.05"
    assert monitor.report()["alerts"] == {"high_error_rate": 1, "low": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", None, True])
def test_what_is_no_number_is_refused(value: object) -> None:
    with Monitor() as monitor, pytest.raises(ConfigurationError, match="'loss'"):
        monitor.update({"loss": value})  # type: ignore[dict-item]


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "m.json"
    with Monitor(log_file=log) as monitor:
        monitor.update({"n": 1})
        monitor.update({"n": 2})
    log.write_text(log.read_text()[:-3])
    assert [each.metrics["n"] for each in read_log(log)] == [1]


def test_a_report_replaces_the_old_one_whole_or_not_at_all(tmp_path: Path) -> None:
    monitor, path = Monitor(), tmp_path / "new" / "report.json"
    with monitor:
        monitor.update({"n": 4.0})
    monitor.write_report(path)
    assert json.loads(path.read_text())["metrics"]["n"]["mean"] == 4.0
    assert [each.name for each in path.parent.iterdir()] == ["report.json"]


def test_updates_are_published_as_steps_of_a_tracked_run() -> None:
    tracker = InMemoryTracker()
    tracker.open_run("r", {}, {})
    publish = tracker_sink(tracker, "r")
    publish(Update(time_seconds=1.5, metrics={"reward": 2.0}))
    publish(Update(time_seconds=2.5, metrics={"reward": 3.0}))
    assert tracker.runs["r"].points == {("reward", 0, 1500, 2.0), ("reward", 1, 2500, 3.0)}
