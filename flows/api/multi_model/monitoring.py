"""The monitor, and the picture of who did what to whom, with the documented names."""

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from components.errors import ConfigurationError
from components.population.graph_page import Frame, graph_numbers, graph_page, graph_picture
from components.population.interaction_graph import InteractionGraph, PlayedEpisode, graphml
from components.tracking.base import Tracker
from components.tracking.monitor import Alert, Bound, Monitor, Update, tracker_sink
from components.whole_files import write_whole
from flows.api.multi_model.arguments import any_number, check_names, mapping
from flows.api.multi_model.checked_config import maybe_text, part, text
from flows.api.multi_model.model_configs import MonitoringConfig

_log = logging.getLogger(__name__)
_EPISODE, _TRANSFER = "episode", "weight_transfer"
MAX_FRAMES = 20
"""The most moments of a page's slider."""
_started: "list[UnifiedMonitor]" = []
"""Those of this process that take metrics, the newest last."""
_starting = threading.Lock()


class UnifiedMonitor:
    """Metrics of a training as they come: a log, statistics, alerts and a report.

    Each training of this process reports to the monitor that was started last and has not ended, also if it was started in the
    middle of the training. Others take what `update_metrics` gives them.

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
        """With a `tracker`, as MLflow's, each update is published as a step of `run_id`, too. Raises ConfigurationError."""
        self.config: MonitoringConfig = part(MonitoringConfig)(
            "config", MonitoringConfig() if config is None else config
        )
        for name, value, method in (
            ("tracker", tracker, "publish_iteration"),
            ("visualizer", visualizer, "log_episode"),
        ):
            if value is not None and not hasattr(value, method):
                raise ConfigurationError(f"{name} {value!r}: has no method {method}; give a {name}, or None")
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
        """Begin to take metrics, as the newest monitor; of one that has begun, too."""
        self._monitor.start()
        with _starting:
            _started[:] = [*(each for each in _started if each is not self), self]

    def stop(self) -> None:
        """Write what has come in, and end. Raises OSError if the log could not be written."""
        with _starting:
            _started[:] = [each for each in _started if each is not self]
        self._monitor.stop()

    def update_metrics(self, metrics: Mapping[str, float]) -> None:
        """Take a measurement, by name. `engagement_rate`, `error_rate` and `response_time` have thresholds."""
        given = mapping("metrics", metrics)
        self._monitor.update({text("metric", name): any_number(name, value) for name, value in given.items()})

    def add_alert_callback(self, callback: Callable[[dict[str, Any]], None]) -> None:
        """Call `callback` with each alert: a dict with type, severity, message, metric and value."""
        if not callable(callback):
            raise ConfigurationError(f"callback {callback!r}: give a function of one dict")

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

    def _take(self, metrics: Mapping[str, float], episodes: Sequence[PlayedEpisode]) -> None:
        try:
            self._monitor.update(metrics)
        except ConfigurationError:
            if self._monitor.is_running:
                raise
            return  # it ended in between
        if self.graph_visualizer is not None:
            for each in episodes:
                self.graph_visualizer.log_episode(each.raw_returns, [dict(step) for step in each.actions_T])


def newest_monitor() -> UnifiedMonitor | None:
    """The monitor of this process that was started last and has not ended; None if there is none."""
    with _starting:
        return _started[-1] if _started else None


def tell_newest_monitor(metrics: Mapping[str, float], episodes: Sequence[PlayedEpisode] = ()) -> None:
    """Report a step of a training, and what was played in it, to the newest monitor, if there is one."""
    monitor = newest_monitor()
    if monitor is not None:
        monitor._take(metrics, episodes)


class GraphVisualizer:
    """Who cooperated or competed with whom, and whose weights went where: a log of events, and pictures of it.

    **Example**

        graph = create_graph_visualizer("graph.jsonl")
        graph.log_episode({"a": 1.0, "b": 0.5}, [{"a": "cooperate", "b": "compete"}])
        graph.export_html("graph.html")
    """

    def __init__(self, log_file: str | Path = "graph_visualization.log") -> None:
        """The log holds JSON lines; what is in it already is a part of the graph. Raises ConfigurationError for no file."""
        if not isinstance(log_file, str | Path) or Path(log_file).is_dir():
            raise ConfigurationError(f"log_file {log_file!r}: give the path of a file")
        self.log_file = Path(log_file)

    def log_event(
        self, event_type: str, source_id: str, target_id: str | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        """Append an event to the log. Only those of `log_episode` and `log_weight_transfer` make edges.

        Raises ConfigurationError for an event that could not be read again, and keeps nothing of it.
        """
        kept = {} if data is None else mapping("data", data)
        event = {
            "timestamp": time.time(),
            "event_type": text("event_type", event_type),
            "source_id": text("source_id", source_id),
            "target_id": maybe_text("target_id", target_id),
            "data": kept if event_type != _EPISODE else _episode_data(kept),
        }
        _after(InteractionGraph(), event, order=1)
        try:
            line = json.dumps(event)
        except (TypeError, ValueError) as error:
            raise ConfigurationError(
                f"data {data!r}: is no JSON ({error}); give texts, numbers, lists and dicts"
            ) from error
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a+b") as log:
            _remove_cut_line(log)
            log.write(line.encode() + b"\n")

    def log_episode(self, raw_returns: Mapping[str, float], actions: Sequence[Mapping[str, str]]) -> None:
        """A played episode: each member's raw return, and what each did in each step."""
        returns = mapping("raw_returns", raw_returns)
        if not returns:
            raise ConfigurationError("raw_returns {}: give the return of one member or more")
        self.log_event(_EPISODE, next(iter(returns)), data={"raw_returns": returns, "actions_T": actions})

    def log_weight_transfer(self, source_id: str, target_id: str, share: float) -> None:
        """`target_id` took over this share, 0 to 1, of the weights of `source_id`."""
        self.log_event(_TRANSFER, source_id, target_id, {"share": any_number("share", share)})

    def graph(self) -> InteractionGraph:
        """The graph of all events."""
        return self._frames(self._events())[-1].graph

    def get_statistics(self) -> dict[str, Any]:
        """Numbers of members, edges and events, density, rates of cooperation and of its being answered, correlations."""
        events = self._events()
        return {**graph_numbers(self._frames(events)[-1].graph), "num_events": len(events)}

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
        write_whole(Path(path), graph_page(self._frames(self._events())))
        return str(path)

    def _events(self) -> dict[int, dict[str, Any]]:
        """The whole lines of the log, by number. Raises ConfigurationError for one that is no event."""
        if not self.log_file.exists():
            return {}
        lines = self.log_file.read_text(encoding="utf-8").splitlines(keepends=True)
        return {number: self._event(number, line) for number, line in enumerate(lines, start=1) if line.endswith("\n")}

    def _event(self, number: int, line: str) -> dict[str, Any]:
        with self._naming(number):
            event: dict[str, Any] = mapping("event", json.loads(line))
            text("event_type", event.get("event_type"))
            return event

    def _frames(self, events: Mapping[int, Mapping[str, Any]]) -> list[Frame]:
        """The graph at up to MAX_FRAMES moments of the log, the last one after all events."""
        shown_events = [(line, each) for line, each in events.items() if each["event_type"] in (_EPISODE, _TRANSFER)]
        num = len(shown_events)
        graph, frames = InteractionGraph(), []
        shown = {round(num * part / MAX_FRAMES) for part in range(1, MAX_FRAMES + 1)} | {num}
        for number, (line, event) in enumerate(shown_events, start=1):
            with self._naming(line):
                graph = _after(graph, event, order=number)
            if number in shown:
                frames.append(Frame(label=f"after {number} of {num} events", graph=graph))
        return frames or [Frame(label="no events", graph=graph)]

    @contextmanager
    def _naming(self, line: int) -> Iterator[None]:
        """Name the line of the log in what is wrong with it."""
        try:
            yield
        except ValueError as error:
            place = f"log_file {str(self.log_file)!r}, line {line}"
            raise ConfigurationError(f"{place}: {error}; this is no event: remove it, or name another file") from error


def _after(graph: InteractionGraph, event: Mapping[str, Any], *, order: int) -> InteractionGraph:
    """The graph after an event. Raises ConfigurationError for one that lacks what its type needs."""
    data = mapping("data", event.get("data", {}))
    if event["event_type"] == _EPISODE:
        return graph.after_episodes([PlayedEpisode(order=order, **_episode_data(data))])
    if event["event_type"] == _TRANSFER:
        source, target = (_member(name, event.get(name)) for name in ("source_id", "target_id"))
        return graph.after_transfer(source, target, any_number("data.share", data.get("share")))
    return graph


def _episode_data(data: Mapping[str, Any]) -> dict[str, Any]:
    """The returns and actions of an episode. Raises ConfigurationError for what is none."""
    check_names(data, ("raw_returns", "actions_T"), "an event episode")
    steps = data.get("actions_T", [])
    if not isinstance(steps, list | tuple):
        raise ConfigurationError(f"actions_T {steps!r}: give a list, of each step a dict of member and action")
    returns = mapping("raw_returns", data.get("raw_returns"))
    return {
        "raw_returns": {
            _member("member", name): any_number(f"raw_returns[{name!r}]", each) for name, each in returns.items()
        },
        "actions_T": [
            {_member("member", name): each for name, each in mapping("actions_T", step).items()} for step in steps
        ],
    }


def _member(name: str, value: Any) -> str:
    """A name that GraphML can hold."""
    if not text(name, value).isprintable():
        raise ConfigurationError(f"{name} {value!r}: use printable characters")
    return str(value)


def _remove_cut_line(log: BinaryIO) -> None:
    """Remove what a crash has left of a last line: what is written behind it would be no line, too."""
    if log.seek(0, SEEK_END) == 0:
        return
    log.seek(-1, SEEK_END)
    if log.read(1) != b"\n":
        log.seek(0)
        log.truncate(log.read().rfind(b"\n") + 1)


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
