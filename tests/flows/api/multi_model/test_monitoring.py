"""The monitor and the graph by their documented names, as users call them."""

import json
from pathlib import Path
from typing import Any

import networkx
import pytest

from components.population.interaction_graph import PlayedEpisode
from components.tracking.monitor import read_log
from flows.api.multi_model.model_configs import MonitoringConfig
from flows.api.multi_model.monitoring import (
    UnifiedMonitor,
    create_graph_visualizer,
    create_unified_monitor,
    newest_monitor,
    tell_newest_monitor,
)


def test_thresholds_decide_the_alerts_and_the_log_holds_every_update(tmp_path: Path) -> None:
    alerts: list[dict[str, Any]] = []
    monitor = create_unified_monitor(
        MonitoringConfig(log_file_path=str(tmp_path / "m.json"), response_time_threshold=1.0)
    )
    monitor.add_alert_callback(alerts.append)
    monitor.start()
    monitor.update_metrics({"engagement_rate": 0.05, "error_rate": 0.06, "response_time": 1.5})
    monitor.update_metrics({"engagement_rate": 0.5, "error_rate": 0.01, "response_time": 0.5})
    monitor.stop()
    assert [each["type"] for each in alerts] == ["low_engagement", "high_error_rate", "slow_response"]
    assert len(read_log(tmp_path / "m.json")) == 2
    stats = json.loads(Path(monitor.export_report(tmp_path / "report.json")).read_text())
    assert stats["metrics_summary"]["error_rate"]["highest"] == 0.06
    assert stats["monitoring_status"]["is_running"] is False


def test_every_field_of_the_configuration_changes_the_monitor(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = MonitoringConfig(False, False, str(tmp_path / "no.json"), 0.01, history_window_size=2)
    quiet = UnifiedMonitor(config)
    caplog.set_level("INFO")
    quiet.start()
    for number in range(3):
        quiet.update_metrics({"n": number})
    quiet.stop()
    assert not (tmp_path / "no.json").exists()
    assert not caplog.records
    assert quiet.get_comprehensive_stats()["metrics_summary"]["n"]["count"] == 2
    loud = UnifiedMonitor(MonitoringConfig(False, True))
    loud.start()
    loud.update_metrics({"n": 1})
    loud.stop()
    assert "n 1" in caplog.text


def test_the_graph_is_that_of_the_played_episodes_and_survives_its_process(tmp_path: Path) -> None:
    log = tmp_path / "graphs" / "events.jsonl"
    for number in range(30):
        visualizer = create_graph_visualizer(log)
        visualizer.log_episode({"a": 1.0 * number, "b": -2.0 * number}, [{"a": "cooperate", "b": "compete"}])
    visualizer.log_weight_transfer("a", "b", 0.3)
    visualizer.log_event("directive", "a", "b", {"text": "</script>"})
    log.write_text(log.read_text() + '{"cut": ')
    again = create_graph_visualizer(log)
    statistics = again.get_statistics()
    assert (statistics["num_cooperated"], statistics["num_transfers"], statistics["num_events"]) == (30, 1, 32)
    assert statistics["return_correlation"] == {"a b": pytest.approx(-1.0)}
    read = networkx.read_graphml(again.export_graphml(tmp_path / "g.graphml"))
    assert read.edges["a", "b"]["num_cooperated"] == 30
    assert Path(again.export_png(tmp_path / "g.png")).read_bytes().startswith(b"\x89PNG")
    page = Path(again.export_html(tmp_path / "g.html")).read_text()
    assert "after 31 of 31 events" in page
    assert page.count('class="frame') == 20
    again.log_weight_transfer("b", "a", 0.2)
    assert again.get_statistics()["num_events"] == 33, "what follows a cut line is a line"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (("episode", "a"), "raw_returns None"),
        (("episode", "a", None, {"raw_returns": {"a": "x", "b": 1}}), r"raw_returns\['a'\] 'x'"),
        (("episode", "a", None, {"raw_returns": {"a": float("nan")}}), "nan"),
        (("episode", "a", None, {"raw_returns": {"a": 1.0}, "actions": []}), "did you mean 'actions_T'"),
        (("episode", "a", None, {"raw_returns": {"a": 1.0}, "actions_T": {"a": "compete"}}), "actions_T"),
        (
            ("episode", "a", None, {"raw_returns": {"a": 1.0}, "actions_T": [{"a": "share", "b": "compete"}]}),
            "cooperate or",
        ),
        (("weight_transfer", "a", "b"), "share None"),
        (("weight_transfer", "a", "a", {"share": 0.1}), "transfer"),
        (("weight_transfer", "a", None, {"share": 0.1}), "target_id"),
        (("weight_transfer", "a\x01", "b", {"share": 0.1}), "printable"),
        ((5, "a"), "event_type 5"),
        (("note", "a", None, "text"), "data 'text'"),
        (("note", "a", None, {"at": object()}), "JSON"),
    ],
)
def test_an_event_that_could_not_be_read_again_is_refused(tmp_path: Path, event: Any, said: str) -> None:
    visualizer = create_graph_visualizer(tmp_path / "events.jsonl")
    visualizer.log_event("note", "a")
    with pytest.raises(ValueError, match=said):
        visualizer.log_event(*event)
    assert visualizer.get_statistics()["num_events"] == 1
    visualizer.log_file.write_text('{"event_type": "note"}\n{"event_type": "episode"}\n')
    with pytest.raises(ValueError, match=r"events.jsonl', line 2: raw_returns None"):
        visualizer.graph()


def test_a_training_reports_to_the_newest_monitor_that_has_not_ended(tmp_path: Path) -> None:
    graph = create_graph_visualizer(tmp_path / "g.jsonl")
    first, second = (UnifiedMonitor(MonitoringConfig(False, False), visualizer=graph) for _ in range(2))
    assert newest_monitor() is None
    tell_newest_monitor({"n": 0.0})
    first.start()
    tell_newest_monitor({"n": 1.0}, [PlayedEpisode(order=0, raw_returns={"a": 1.0, "b": 0.0})])
    second.start()
    tell_newest_monitor({"n": 2.0})
    first.start()
    tell_newest_monitor({"n": 3.0})
    first.stop()
    tell_newest_monitor({"n": 4.0})
    second.stop()
    tell_newest_monitor({"n": 5.0})
    found = [each.get_comprehensive_stats()["metrics_summary"]["n"] for each in (first, second)]
    assert [(each["count"], each["lowest"], each["highest"]) for each in found] == [(2, 1.0, 3.0), (2, 2.0, 4.0)]
    assert graph.get_statistics()["num_events"] == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: create_unified_monitor({"log_path": "x"}), "did you mean 'log_file_path'"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor({"history_window_size": "x"}), "history_window_size 'x'"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor(tracker=5), "tracker 5"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor().add_alert_callback("x"), "callback 'x'"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor().update_metrics([1]), r"metrics \[1\]"),  # type: ignore[arg-type]
        (lambda: create_unified_monitor().update_metrics({1: 1.0}), "metric 1"),  # type: ignore[dict-item]
        (lambda: create_graph_visualizer("."), "log_file '.'"),
        (lambda: create_graph_visualizer("x").log_episode({}, []), "raw_returns {}"),
    ],
)
def test_what_is_no_monitor_or_metric_is_refused(make: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
