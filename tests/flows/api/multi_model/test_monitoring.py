"""The monitor and the graph by their documented names, as users call them."""

import json
from pathlib import Path
from typing import Any

import networkx
import pytest

from components.population.interaction_graph import PlayedEpisode
from components.reporting.progress import Progress
from flows.api.multi_model import MonitoringConfig, UnifiedMonitor, create_graph_visualizer, create_unified_monitor
from flows.api.multi_model.monitoring import newest_monitor, report_step


def test_thresholds_decide_the_alerts_and_the_log_holds_every_update(tmp_path: Path) -> None:
    alerts: list[dict[str, Any]] = []
    monitor = create_unified_monitor(
        MonitoringConfig(log_file_path=str(tmp_path / "logs" / "m.json"), response_time_threshold=1.0)
    )
    monitor.add_alert_callback(lambda _: 1 / 0)  # type: ignore[arg-type, return-value]
    monitor.add_alert_callback(alerts.append)
    with pytest.raises(ValueError, match="call start"):
        monitor.update_metrics({"n": 1})
    monitor.start()
    monitor.update_metrics({"engagement_rate": 0.05, "error_rate": 0.06, "response_time": 1.5})
    monitor.update_metrics({"engagement_rate": 0.1, "error_rate": 0.05, "response_time": 1.0})
    monitor.stop()
    assert [(each["type"], each["severity"]) for each in alerts] == [
        ("low_engagement", "warning"),
        ("high_error_rate", "critical"),
        ("slow_response", "warning"),
    ]
    assert alerts[1]["message"] == "error_rate 0.06: above 0.05"
    lines = [json.loads(line) for line in (tmp_path / "logs" / "m.json").read_text().splitlines()]
    assert [each["metrics"]["error_rate"] for each in lines] == [0.06, 0.05]
    stats = json.loads(Path(monitor.export_report(tmp_path / "new" / "report.json")).read_text())
    assert stats["metrics_summary"]["error_rate"]["highest"] == 0.06
    assert stats["performance_summary"]["alerts"] == {"low_engagement": 1, "high_error_rate": 1, "slow_response": 1}
    assert stats["monitoring_status"]["is_running"] is False


def test_the_console_shows_updates_and_progress_and_a_window_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    quiet, loud = (UnifiedMonitor(MonitoringConfig(False, shows, history_window_size=2)) for shows in (False, True))
    for monitor in (quiet, loud):
        monitor.start()
        for number in range(3):
            monitor.update_metrics({"n": number})
            monitor.show_progress(Progress(stage="collect_rollouts", step=4, done=number, total=5))
        monitor.stop()
        assert monitor.get_comprehensive_stats()["metrics_summary"]["n"]["count"] == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown == ["monitor: n 0", "monitor: step 4: collect_rollouts 0 of 5", "monitor: n 1", "monitor: n 2"]
    assert not list(tmp_path.iterdir())


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
    visualizer.log_weight_transfer("a", "b", 0.3)
    again = create_graph_visualizer(log)
    statistics = again.get_statistics()
    assert (statistics["num_cooperated"], statistics["num_transfers"], statistics["num_events"]) == (30, 1, 31)
    assert (statistics["num_members"], statistics["num_competed"], statistics["cooperation_rate"]) == (2, 30, 0.5)
    read = networkx.read_graphml(again.export_graphml(tmp_path / "g.graphml"))
    assert read.edges["a", "b"]["num_cooperated"] == 30
    assert Path(again.export_png(tmp_path / "g.png")).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (lambda graph: graph.log_episode({}, []), "raw_returns"),
        (lambda graph: graph.log_episode({"a": "x", "b": 1}, []), r"raw_returns.a 'x'"),
        (lambda graph: graph.log_episode({"a": float("nan")}, []), "finite number"),
        (lambda graph: graph.log_episode({"a": 1.0}, [{"a": "share", "b": "compete"}]), "cooperate"),
        (lambda graph: graph.log_weight_transfer("a", "a", 0.1), "transfer"),
        (lambda graph: graph.log_weight_transfer("a\x01", "b", 0.1), "source_id .*pattern"),
    ],
)
def test_an_event_that_could_not_be_read_again_is_refused(tmp_path: Path, log: Any, said: str) -> None:
    visualizer = create_graph_visualizer(tmp_path / "events.jsonl")
    visualizer.log_weight_transfer("a", "b", 0.5)
    with pytest.raises(ValueError, match=said):
        log(visualizer)
    assert visualizer.get_statistics()["num_events"] == 1
    with visualizer.log_file.open("a") as file:
        file.write('{"timestamp": 1, "event_type": "episode"}\n')
    with pytest.raises(ValueError, match=r"events.jsonl', line 2: .*raw_returns"):
        visualizer.graph()


def test_a_training_reports_to_the_newest_monitor_that_has_not_ended(tmp_path: Path) -> None:
    graph = create_graph_visualizer(tmp_path / "g.jsonl")
    first, second = (UnifiedMonitor(MonitoringConfig(False, False), visualizer=graph) for _ in range(2))
    assert newest_monitor() is None
    report_step({"n": 0.0})
    first.start()
    report_step({"n": 1.0}, [PlayedEpisode(order=0, raw_returns={"a": 1.0, "b": 0.0})])
    second.start()
    report_step({"n": 2.0})
    first.start()
    report_step({"n": 3.0})
    first.stop()
    report_step({"n": 4.0})
    second.stop()
    report_step({"n": 5.0})
    found = [each.get_comprehensive_stats()["metrics_summary"]["n"] for each in (first, second)]
    assert [(each["count"], each["lowest"], each["highest"]) for each in found] == [(2, 1.0, 3.0), (2, 2.0, 4.0)]
    assert graph.get_statistics()["num_events"] == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: create_unified_monitor({"log_path": "x"}), "log_path"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor(MonitoringConfig(False, True, "x")), "log_file_path .x.: has no effect"),
        (
            lambda: create_unified_monitor(MonitoringConfig(enable_console_logging=False, metrics_sampling_interval=2)),
            "metrics_sampling_interval 2.0: has no effect",
        ),
        (lambda: create_unified_monitor().update_metrics({"n": float("nan")}), "metrics.n nan"),
        (lambda: create_graph_visualizer("."), "log_file '.'"),
    ],
)
def test_what_is_no_monitor_or_metric_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
