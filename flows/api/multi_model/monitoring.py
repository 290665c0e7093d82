"""The monitor, and the picture of who did what to whom, with the documented names."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.population.graph_page import Frame, graph_numbers, graph_page, graph_picture
from components.population.interaction_graph import InteractionGraph, PlayedEpisode, graphml
from components.tracking.base import Tracker
from components.tracking.monitor import Alert, Bound, Monitor, Update, tracker_sink
from components.whole_files import write_whole
from flows.api.multi_model.model_configs import MonitoringConfig

_log = logging.getLogger(__name__)
_EPISODE, _TRANSFER = "episode", "weight_transfer"
MAX_FRAMES = 20
"""The most moments of a page's slider."""


class UnifiedMonitor:
    """Metrics of a training as they come: a log, statistics, alerts and a report.

    **Example**

        monitor = create_unified_monitor(MonitoringConfig(log_file_path="./logs/training.json"))
        monitor.start()
        monitor.update_metrics({"error_rate": 0.2})  # alerts high_error_rate
        monitor.stop()
    """

    def __init__(
        self,
        config: MonitoringConfig | None = None,
        *,
        tracker: Tracker | None = None,
        run_id: str = "monitor",
        visualizer: "GraphVisualizer | None" = None,
    ) -> None:
        """With a `tracker`, as MLflow's, each update is published as a step of `run_id`, too."""
        self.config = config or MonitoringConfig()
        self.graph_visualizer = visualizer
        sinks = [_to_console] if self.config.enable_console_logging else []
        self._monitor = Monitor(
            log_file=Path(self.config.log_file_path) if self.config.enable_file_logging else None,
            bounds=_bounds(self.config),
            sinks=[*sinks, *([tracker_sink(tracker, run_id)] if tracker else [])],
            history=self.config.history_window_size,
            interval_seconds=self.config.metrics_sampling_interval,
        )

    def start(self) -> None:
        """Begin to take metrics."""
        self._monitor.start()

    def stop(self) -> None:
        """Write what has come in, and end. Raises OSError if the log could not be written."""
        self._monitor.stop()

    def update_metrics(self, metrics: Mapping[str, float]) -> None:
        """Take a measurement, by name. `engagement_rate`, `error_rate` and `response_time` have thresholds."""
        self._monitor.update(metrics)

    def add_alert_callback(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Call `callback` with each alert: a dict with type, severity, message, metric and value."""

        def listener(alert: Alert) -> None:
            callback(asdict(alert))

        self._monitor.listen(listener)

    def get_comprehensive_stats(self) -> dict[str, Any]:
        """`metrics_summary` by metric, `performance_summary`, `graph_statistics` and `monitoring_status`."""
        report = self._monitor.report()
        num, seconds = report["num_updates"], report["seconds"]
        return {
            "metrics_summary": report["metrics"],
            "performance_summary": {"num_updates": num, "seconds": seconds, "alerts": report["alerts"]},
            "graph_statistics": {} if self.graph_visualizer is None else self.graph_visualizer.get_statistics(),
            "monitoring_status": {"is_running": self._monitor.is_running, "config": self.config.to_json()},
        }

    def export_report(self, path: str | Path = "monitoring_report.json") -> str:
        """Write the statistics as JSON, whole or not at all; the path."""
        write_whole(Path(path), json.dumps(self.get_comprehensive_stats(), indent=2))
        return str(path)


class GraphVisualizer:
    """Who cooperated or competed with whom, and whose weights went where: a log of events, and pictures of it.

    **Example**

        graph = create_graph_visualizer("graph.jsonl")
        graph.log_episode({"a": 1.0, "b": 0.5}, [{"a": "cooperate", "b": "compete"}])
        graph.export_html("graph.html")
    """

    def __init__(self, log_file: str | Path = "graph_visualization.log") -> None:
        """The log holds JSON lines; what is in it already is a part of the graph."""
        self.log_file = Path(log_file)

    def log_event(
        self, event_type: str, source_id: str, target_id: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Append an event to the log. Only those of `log_episode` and `log_weight_transfer` make edges."""
        event = {"timestamp": time.time(), "event_type": event_type, "source_id": source_id, "target_id": target_id}
        line = json.dumps({**event, "data": dict(data or {})})
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(line + "\n")

    def log_episode(self, raw_returns: Mapping[str, float], actions: list[dict[str, str]]) -> None:
        """A played episode: each member's raw return, and what each did in each step."""
        episode: Any = {"raw_returns": dict(raw_returns), "actions_T": actions}
        InteractionGraph().after_episodes([PlayedEpisode(order=0, **episode)])  # refuses what is none
        self.log_event(_EPISODE, next(iter(raw_returns), ""), data=episode)

    def log_weight_transfer(self, source_id: str, target_id: str, share: float) -> None:
        """`target_id` took over this share, 0 to 1, of the weights of `source_id`."""
        InteractionGraph().after_transfer(source_id, target_id, share)
        self.log_event(_TRANSFER, source_id, target_id, {"share": share})

    def graph(self) -> InteractionGraph:
        """The graph of all events."""
        return self._frames()[-1].graph

    def get_statistics(self) -> dict[str, Any]:
        """Numbers of members, edges and events, density, rates of cooperation and of its being answered, correlations."""
        return {**graph_numbers(self.graph()), "num_events": len(self._events())}

    def export_png(self, path: str | Path) -> str:
        """Write a picture, drawn without a display; the path."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(graph_picture(self.graph()))
        return str(path)

    def export_graphml(self, path: str | Path) -> str:
        """Write the graph for Gephi, yEd or networkx; the path."""
        write_whole(Path(path), graphml(self.graph()))
        return str(path)

    def export_html(self, path: str | Path) -> str:
        """Write a page that loads nothing, with a slider over time; the path."""
        write_whole(Path(path), graph_page(self._frames()))
        return str(path)

    def _events(self) -> list[dict[str, Any]]:
        """The whole lines of the log. Raises ConfigurationError for one that is no event."""
        if not self.log_file.exists():
            return []
        lines = self.log_file.read_text(encoding="utf-8").splitlines(keepends=True)
        try:
            return [json.loads(line) for line in lines if line.endswith("\n")]
        except ValueError as error:
            raise ConfigurationError(
                f"log_file {str(self.log_file)!r}: holds no JSON lines; name another file"
            ) from error

    def _frames(self) -> list[Frame]:
        """The graph at up to MAX_FRAMES moments of the log, the last one after all events."""
        events = [each for each in self._events() if each["event_type"] in (_EPISODE, _TRANSFER)]
        graph, frames = InteractionGraph(), []
        shown = {round(len(events) * part / MAX_FRAMES) for part in range(1, MAX_FRAMES + 1)} | {len(events)}
        for number, event in enumerate(events, start=1):
            if event["event_type"] == _EPISODE:
                graph = graph.after_episodes([PlayedEpisode(order=number, **event["data"])])
            else:
                graph = graph.after_transfer(event["source_id"], event["target_id"], event["data"]["share"])
            if number in shown:
                frames.append(Frame(label=f"after {number} of {len(events)} events", graph=graph))
        return frames or [Frame(label="no events", graph=graph)]


def create_unified_monitor(config: MonitoringConfig | None = None, *, tracker: Tracker | None = None) -> UnifiedMonitor:
    """A monitor that has not begun; `tracker` publishes its metrics, too."""
    return UnifiedMonitor(config, tracker=tracker)


def create_graph_visualizer(log_file: str | Path = "graph_visualization.log") -> GraphVisualizer:
    """A graph over a log of events, which is made with the first event."""
    return GraphVisualizer(log_file)


def _bounds(config: MonitoringConfig) -> tuple[Bound, ...]:
    return (
        Bound(metric="engagement_rate", alert="low_engagement", lowest=config.engagement_rate_threshold),
        Bound(metric="error_rate", alert="high_error_rate", severity="critical", highest=config.error_rate_threshold),
        Bound(metric="response_time", alert="slow_response", highest=config.response_time_threshold),
    )


def _to_console(update: Update) -> None:
    _log.info("%s", ", ".join(f"{name} {value:.4g}" for name, value in sorted(update.metrics.items())))
