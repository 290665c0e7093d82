"""The monitor and the graph by their documented names, as users call them."""

import json
from pathlib import Path
from typing import Any

import networkx
import pytest

from components.tracking.monitor import read_log
from flows.api.multi_model.model_configs import MonitoringConfig
from flows.api.multi_model.monitoring import UnifiedMonitor, create_graph_visualizer, create_unified_monitor


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
    with pytest.raises(ValueError, match="cooperate or compete"):
        again.log_episode({"a": 1.0}, [{"a": "share", "b": "compete"}])
    with pytest.raises(ValueError, match="transfer"):
        again.log_weight_transfer("a", "a", 0.1)
