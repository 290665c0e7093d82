"""The monitor and the graph by their documented names, as users call them."""

import json
from pathlib import Path
from typing import Any

import networkx
import pytest

from flows.api.multi_model import MonitoringConfig, UnifiedMonitor, create_graph_visualizer, create_unified_monitor
from flows.api.multi_model.monitoring import newest_monitor, report_step


@pytest.fixture(autouse=True)
def _no_monitor_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trainer without `shutdown`, elsewhere in this process, leaves its own."""
    monkeypatch.setattr("flows.api.multi_model.monitoring._started", [])


def test_what_is_measured_is_logged_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quiet, loud = (UnifiedMonitor(MonitoringConfig(shows, shows)) for shows in (False, True))
    with pytest.raises(ValueError, match="call start"):
        quiet.update_metrics({"n": 1})
    for monitor in (quiet, loud):
        monitor.start()
        for number in range(3):
            monitor.update_metrics({"n": number, f"m{number}": 0.5})
        monitor.stop()
        known = {"n": 2, "m0": 0.5, "m1": 0.5, "m2": 0.5}
        assert monitor.get_comprehensive_stats() == {"num_updates": 3, "metrics": known, "is_running": False}
    shown = ["m0 0.5, n 0", "m1 0.5, n 1", "m2 0.5, n 2"]
    assert capsys.readouterr().err.splitlines() == [f"monitor: {each}" for each in shown]
    lines = [json.loads(line) for line in Path("logs/metrics.json").read_text().splitlines()]
    assert [each["metrics"]["n"] for each in lines] == [0, 1, 2]


def test_a_log_that_cannot_be_written_is_told_at_once_and_ends_no_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monitor = UnifiedMonitor(MonitoringConfig(log_file_path=str(tmp_path / "file" / "m.json")))
    (tmp_path / "file").write_text("a file in its place")
    with pytest.raises(OSError, match="file"):
        monitor.start()
    assert newest_monitor() is None
    (tmp_path / "file").unlink()
    monitor.start()
    (tmp_path / "file" / "m.json").unlink()
    (tmp_path / "file" / "m.json").mkdir()
    report_step({"n": 1.0})
    monitor.stop()
    assert "the monitor misses a step" in caplog.text


def test_the_graph_is_that_of_the_played_episodes_and_survives_its_process(tmp_path: Path) -> None:
    log = tmp_path / "graphs" / "events.jsonl"
    for number in range(30):
        visualizer = create_graph_visualizer(log)
        visualizer.log_episode({"a": 1.0 * number, "b": -2.0 * number}, [{"a": "cooperate", "b": "compete"}])
    again = create_graph_visualizer(log)
    assert (again.graph().edge("a", "b").num_cooperated, again.graph().edge("b", "a").num_competed) == (30, 30)
    assert again.graph().correlation("a", "b") == pytest.approx(-1.0)
    read = networkx.read_graphml(again.export_graphml(tmp_path / "g.graphml"))
    assert read.edges["a", "b"]["num_cooperated"] == 30
    assert Path(again.export_png(tmp_path / "g.png")).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (lambda graph: graph.log_episode({"a": "x", "b": 1}, []), r"raw_returns.a 'x'"),
        (lambda graph: graph.log_episode({"a": float("nan")}, []), "not finite"),
        (lambda graph: graph.log_episode({"a": 1.0}, [{"a": "share", "b": "compete"}]), "cooperate"),
    ],
)
def test_an_episode_that_could_not_be_read_again_is_refused(tmp_path: Path, log: Any, said: str) -> None:
    visualizer = create_graph_visualizer(tmp_path / "events.jsonl")
    visualizer.log_episode({"a": 0.5}, [])
    with pytest.raises(ValueError, match=said):
        log(visualizer)
    assert len(visualizer.log_file.read_text().splitlines()) == 1
    with visualizer.log_file.open("a") as file:
        file.write('{"order": 1}\n')
    with pytest.raises(
        ValueError, match=r"events.jsonl': episodes.1.raw_returns: required and missing; remove what is no episode"
    ):
        visualizer.graph()


def test_a_training_reports_to_the_newest_monitor_that_has_not_ended() -> None:
    first, second = (UnifiedMonitor(MonitoringConfig(False, False)) for _ in range(2))
    assert newest_monitor() is None
    report_step({"n": 0.0})
    first.start()
    report_step({"n": 1.0})
    second.start()
    report_step({"n": 2.0})
    first.start()
    report_step({"n": 3.0})
    first.stop()
    report_step({"n": 4.0})
    second.stop()
    report_step({"n": 5.0})
    found = [each.get_comprehensive_stats() for each in (first, second)]
    assert [(each["num_updates"], each["metrics"]["n"]) for each in found] == [(2, 3.0), (2, 4.0)]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: create_unified_monitor({"log_path": "x"}), "log_path"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor(MonitoringConfig(False, True, "x")), "log_file_path .x.: has no effect"),
        (lambda: create_unified_monitor().update_metrics({"n": float("nan")}), "metrics.n nan"),
    ],
)
def test_what_is_no_monitor_or_metric_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
