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
from typing import Any

from components.errors import ConfigurationError
from components.machine.whole_files import write_whole
from components.population.interaction_graph import PlayedEpisode
from components.reporting.progress import Progress
from flows.api.multi_model.configs import MonitoringConfig
from flows.api.multi_model.fields import Finite, Text, as_json, check_arguments
from flows.api.multi_model.graph import GraphVisualizer

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
