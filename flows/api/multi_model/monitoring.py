"""The monitor by its documented name: what trainings and users report, passed on to a log, a console and alerts."""

import json
import logging
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.machine.whole_files import write_whole
from components.population.interaction_graph import Action, InteractionGraph, PlayedEpisode, graph_picture, graphml
from components.reporting.progress import Progress
from flows.api.multi_model.configs import MonitoringConfig
from flows.api.multi_model.fields import Finite, Share, Text, as_json, check_arguments, explain_faults

_Name = Annotated[str, Field(min_length=1, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
"""What GraphML can hold."""


class _Episode(Frozen):
    """A line of the log: each member's raw return, and what each did in each step."""

    event_type: Literal["episode"]
    timestamp: float = Field(default_factory=time.time)
    raw_returns: dict[_Name, Finite] = Field(min_length=1)
    actions_T: list[dict[_Name, Action]]

    def add_to(self, graph: InteractionGraph, *, order: int) -> InteractionGraph:
        played = PlayedEpisode(order=order, raw_returns=self.raw_returns, actions_T=self.actions_T)
        return graph.after_episodes([played])


class _Transfer(Frozen):
    """A line of the log: `target_id` took over a share of the weights of `source_id`."""

    event_type: Literal["weight_transfer"]
    timestamp: float = Field(default_factory=time.time)
    source_id: _Name
    target_id: _Name
    share: Share

    def add_to(self, graph: InteractionGraph, *, order: int) -> InteractionGraph:
        return graph.after_transfer(self.source_id, self.target_id, self.share)


_EVENT: TypeAdapter[_Episode | _Transfer] = TypeAdapter(
    Annotated[_Episode | _Transfer, Field(discriminator="event_type")]
)


class GraphVisualizer:
    """Who cooperated or competed with whom, and whose weights went where: a log of events, and pictures of it.

    **Example**

        graph = create_graph_visualizer("graph.jsonl")
        graph.log_episode({"a": 1.0, "b": 0.5}, [{"a": "cooperate", "b": "compete"}])
        graph.export_png("graph.png")
    """

    @check_arguments
    def __init__(self, log_file: str | Path = "graph_visualization.log") -> None:
        """The log holds JSON lines; what is in it already is a part of the graph. Raises ConfigurationError for no file."""
        if Path(log_file).is_dir():
            raise ConfigurationError(f"log_file {str(log_file)!r}: give the path of a file")
        self.log_file = Path(log_file)

    def log_episode(self, raw_returns: Mapping[str, float], actions: Sequence[Mapping[str, str]]) -> None:
        """A played episode: each member's raw return, and what each did in each step. Raises ConfigurationError."""
        self._append({"event_type": "episode", "raw_returns": raw_returns, "actions_T": actions})

    def log_weight_transfer(self, source_id: str, target_id: str, share: float) -> None:
        """`target_id` took over this share, 0 to 1, of the weights of `source_id`. Raises ConfigurationError."""
        moved = {"source_id": source_id, "target_id": target_id, "share": share}
        self._append({"event_type": "weight_transfer", **moved})

    def graph(self) -> InteractionGraph:
        """The graph of all events. Raises ConfigurationError for a line that is no event."""
        graph = InteractionGraph()
        for number, line in enumerate(self._read_lines(), start=1):
            try:
                with explain_faults("no such field", ()):
                    graph = _EVENT.validate_json(line).add_to(graph, order=number)
            except ConfigurationError as error:
                where = f"log_file {str(self.log_file)!r}, line {number}"
                raise ConfigurationError(f"{where}: {error}; this is no event: remove it") from error
        return graph

    def get_statistics(self) -> dict[str, Any]:
        """Numbers of members, edges, events, actions and transfers, and the rate of cooperation, None without an action."""
        edges = [edge for targets in self.graph().edges.values() for edge in targets.values()]
        cooperated, competed = sum(each.num_cooperated for each in edges), sum(each.num_competed for each in edges)
        return {
            "num_members": len(self.graph().members()),
            "num_edges": len(edges),
            "num_events": len(self._read_lines()),
            "num_cooperated": cooperated,
            "num_competed": competed,
            "num_transfers": sum(each.num_transfers for each in edges),
            "cooperation_rate": cooperated / (cooperated + competed) if cooperated + competed else None,
        }

    def export_graphml(self, path: str | Path) -> str:
        """Write the graph for Gephi, yEd or networkx; the path."""
        write_whole(Path(path), graphml(self.graph()))
        return str(path)

    def export_png(self, path: str | Path) -> str:
        """Draw the graph, as a run does at its end; the path."""
        Path(path).write_bytes(graph_picture(self.graph()))
        return str(path)

    def _append(self, values: Mapping[str, Any]) -> None:
        with explain_faults("no such field", ()):
            event = _EVENT.validate_python(values)
        event.add_to(InteractionGraph(), order=1)  # raises for what the graph refuses, and then nothing is written
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(event.model_dump_json() + "\n")

    def _read_lines(self) -> list[str]:
        return self.log_file.read_text(encoding="utf-8").splitlines() if self.log_file.exists() else []


def create_graph_visualizer(log_file: str | Path = "graph_visualization.log") -> GraphVisualizer:
    """A graph over a log of events, which is made with the first event."""
    return GraphVisualizer(log_file)


_log = logging.getLogger(__name__)
Alert = dict[str, Any]
_ALERTS = (  # metric, alert, severity, threshold, the side of it that alerts
    ("engagement_rate", "low_engagement", "warning", "engagement_rate_threshold", "below"),
    ("error_rate", "high_error_rate", "critical", "error_rate_threshold", "above"),
    ("response_time", "slow_response", "warning", "response_time_threshold", "above"),
)
_started: "list[UnifiedMonitor]" = []
"""Those of this process that take metrics, the newest last."""


class UnifiedMonitor:
    """Passes metrics on as they come, and keeps the newest `history_window_size` in memory for statistics.

    Each training of this process reports to the monitor that was started last and has not ended, also if it was started in the
    middle of the training; what a run stored stays the run's. Others take what `update_metrics` gives them.

    **Example**

        monitor = create_unified_monitor(MonitoringConfig(log_file_path="./logs/training.json"))
        monitor.start()
        monitor.update_metrics({"error_rate": 0.2})  # alerts high_error_rate
        monitor.stop()
    """

    @check_arguments
    def __init__(self, config: MonitoringConfig | None = None, *, visualizer: GraphVisualizer | None = None) -> None:
        """`visualizer` takes the episodes that a training plays, too. Raises ConfigurationError."""
        self.config = config or MonitoringConfig()
        self.config.check_effects()
        self.graph_visualizer = visualizer
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[Alert], None]] = []
        self._history: deque[tuple[float, dict[str, float]]] = deque(maxlen=self.config.history_window_size)
        self._num_updates = 0
        self._num_alerts: Counter[str] = Counter()
        self._shown_seconds = float("-inf")

    @property
    def is_running(self) -> bool:
        """Whether metrics are taken."""
        return self in _started

    def start(self) -> None:
        """Begin to take metrics, as the newest monitor; of one that has begun, too. Raises OSError without a log."""
        if self.config.enable_file_logging:
            Path(self.config.log_file_path).parent.mkdir(parents=True, exist_ok=True)
            Path(self.config.log_file_path).open("a", encoding="utf-8").close()
        _started[:] = [*(each for each in _started if each is not self), self]

    def stop(self) -> None:
        """Take no more metrics. Harmless twice."""
        _started[:] = [each for each in _started if each is not self]

    @check_arguments
    def update_metrics(self, metrics: Mapping[Text, Finite]) -> None:
        """Take a measurement, by name. `engagement_rate`, `error_rate` and `response_time` have thresholds.

        Raises ConfigurationError before `start`, OSError if the log cannot be written.
        """
        if not self.is_running:
            raise ConfigurationError("monitor: it takes no metrics yet; call start()")
        with self._lock:
            seconds, values = time.time(), dict(metrics)
            self._history.append((seconds, values))
            if self.config.enable_file_logging:
                with Path(self.config.log_file_path).open("a", encoding="utf-8") as log:
                    log.write(json.dumps({"time_seconds": seconds, "metrics": values}) + "\n")
            self._print(", ".join(f"{name} {value:.4g}" for name, value in sorted(values.items())))
            self._num_updates += 1
        for alert in self._breaches(values):
            self._num_alerts[alert["type"]] += 1
            for callback in self._callbacks:
                try:
                    callback(alert)
                except Exception as error:  # the border to code that is not ours
                    _log.warning("a callback failed at %s with %s: %s", alert["type"], type(error).__name__, error)

    @check_arguments
    def add_alert_callback(self, callback: Callable[[Alert], None]) -> None:
        """Call `callback` with each alert: a dict with type, severity, message, metric and value."""
        self._callbacks.append(callback)

    def show_progress(self, progress: Progress) -> None:
        """Print the progress of a training's stage, at most every `metrics_sampling_interval` seconds."""
        if time.monotonic() - self._shown_seconds >= self.config.metrics_sampling_interval:
            self._shown_seconds = time.monotonic()
            self._print(f"step {progress.step}: {progress.stage} {progress.done:.3g} of {progress.total}")

    def get_comprehensive_stats(self) -> dict[str, Any]:
        """`metrics_summary` by metric, `performance_summary`, `graph_statistics` and `monitoring_status`."""
        with self._lock:
            history, alerts = list(self._history), dict(self._num_alerts)
        seconds = history[-1][0] - history[0][0] if history else 0.0
        named = sorted({name for _, values in history for name in values})
        return {
            "metrics_summary": {name: _summary([each[name] for _, each in history if name in each]) for name in named},
            "performance_summary": {"num_updates": self._num_updates, "seconds": seconds, "alerts": alerts},
            "graph_statistics": {} if self.graph_visualizer is None else self.graph_visualizer.get_statistics(),
            "monitoring_status": {"is_running": self.is_running, "config": as_json(self.config)},
        }

    def export_report(self, path: str | Path = "monitoring_report.json") -> str:
        """Write the statistics as JSON, whole or not at all; the path."""
        write_whole(Path(path), json.dumps(self.get_comprehensive_stats(), indent=2))
        return str(path)

    def _breaches(self, values: Mapping[str, float]) -> Iterator[Alert]:
        for metric, alert, severity, field, word in _ALERTS:
            value, bound = values.get(metric), getattr(self.config, field)
            if value is not None and (value > bound if word == "above" else value < bound):
                message = f"{metric} {value:.4g}: {word} {bound:g}"
                yield {"type": alert, "severity": severity, "message": message, "metric": metric, "value": value}

    def _print(self, line: str) -> None:
        if self.config.enable_console_logging:
            print(f"monitor: {line}", file=sys.stderr, flush=True)


def _summary(v: Sequence[float]) -> dict[str, float]:
    return {"count": len(v), "latest": v[-1], "mean": fmean(v), "lowest": min(v), "highest": max(v)}


def newest_monitor() -> UnifiedMonitor | None:
    """The monitor of this process that was started last and has not ended; None if there is none."""
    return _started[-1] if _started else None


def report_progress(progress: Progress) -> None:
    """Let the newest monitor, if there is one, show the progress of a training."""
    if (monitor := newest_monitor()) is not None:
        monitor.show_progress(progress)


def report_step(metrics: Mapping[str, float], episodes: Sequence[PlayedEpisode] = ()) -> None:
    """Report a step of a training, and what was played in it, to the newest monitor, if there is one."""
    if (monitor := newest_monitor()) is None:
        return
    try:
        monitor.update_metrics(metrics)
        if (graph := monitor.graph_visualizer) is not None:
            for each in episodes:
                graph.log_episode(each.raw_returns, each.actions_T)
    except OSError as error:  # a full disk of the log does not end a training, whose records are elsewhere
        _log.warning("the monitor misses a step: %s", error)


def create_unified_monitor(config: MonitoringConfig | None = None) -> UnifiedMonitor:
    """A monitor that has not begun."""
    return UnifiedMonitor(config)
