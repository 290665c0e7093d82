"""The monitor by its documented name: what is reported, as lines on stderr and in a log; and a graph of who did what."""

import json
import logging
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.machine.whole_files import write_whole
from components.population.interaction_graph import InteractionGraph, PlayedEpisode, graph_picture, graphml
from flows.api.fields import AnyPath, Finite, Text, check_arguments, refuse_changed
from flows.api.multi_model.configs import MonitoringConfig


class GraphVisualizer:
    """Who cooperated or competed with whom: a log of episodes, and pictures of it.

    **Example**

        graph = create_graph_visualizer("graph.jsonl")
        graph.log_episode({"a": 1.0, "b": 0.5}, [{"a": "cooperate", "b": "compete"}])
        graph.export_png("graph.png")
    """

    @check_arguments
    def __init__(self, log_file: AnyPath = "graph_visualization.log") -> None:
        """The log holds an episode in each line, as JSON; those that are in it already are a part of the graph."""
        self.log_file = Path(log_file)

    @check_arguments
    def log_episode(self, raw_returns: dict[str, float], actions: list[dict[str, str]]) -> None:
        """A played episode: each member's raw return, and what each did in each step. Raises ConfigurationError."""
        episode: Any = {"order": 0, "raw_returns": raw_returns, "actions_T": actions}
        _build_graph([episode])  # raises for what is none, and then nothing is written
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log_file.open("a", encoding="utf-8") as log:
            log.write(json.dumps(episode) + "\n")

    def graph(self) -> InteractionGraph:
        """The graph of all episodes. Raises ConfigurationError for a line that is none."""
        lines = self.log_file.read_text(encoding="utf-8").splitlines() if self.log_file.exists() else []
        try:
            return _build_graph([json.loads(line) for line in lines])
        except ValueError as error:
            raise ConfigurationError(f"log_file {str(self.log_file)!r}: {error}; remove what is no episode") from error

    def export_graphml(self, path: str | Path) -> str:
        """Write the graph for Gephi, yEd or networkx; the path."""
        write_whole(Path(path), graphml(self.graph()))
        return str(path)

    def export_png(self, path: str | Path) -> str:
        """Draw the graph, as a run does at its end; the path."""
        Path(path).write_bytes(graph_picture(self.graph()))
        return str(path)


@check_arguments
def _build_graph(episodes: Sequence[PlayedEpisode]) -> InteractionGraph:
    return InteractionGraph().after_episodes([replace(each, order=at) for at, each in enumerate(episodes)])


create_graph_visualizer = GraphVisualizer
_log = logging.getLogger(__name__)
_started: "list[UnifiedMonitor]" = []
"""Those of this process that take metrics, the newest last."""


class UnifiedMonitor:
    """Shows metrics as they come, and logs them as JSON lines.

    Each training of this process reports to the monitor that was started last and has not ended, also if it was started in the
    middle of the training; what a run stored stays the run's. Others take what `update_metrics` gives them.
    """

    @check_arguments
    def __init__(self, config: MonitoringConfig | None = None) -> None:
        self.config = config or MonitoringConfig()
        if not self.config.enable_file_logging:
            refuse_changed(self.config, ["log_file_path"], "has no effect with enable_file_logging False")
        self._lock = threading.Lock()
        self._newest: dict[str, float] = {}
        self._num_updates = 0

    def start(self) -> None:
        """Begin to take metrics, as the newest monitor; of one that has begun, too. Raises OSError without a log."""
        if self.config.enable_file_logging:
            Path(self.config.log_file_path).parent.mkdir(parents=True, exist_ok=True)
            self._write("")
        _started[:] = [*(each for each in _started if each is not self), self]

    def stop(self) -> None:
        """Take no more metrics. Harmless twice."""
        _started[:] = [each for each in _started if each is not self]

    @check_arguments
    def update_metrics(self, metrics: Mapping[Text, Finite]) -> None:
        """Take a measurement, by name. Raises ConfigurationError before `start`, OSError if the log cannot be written."""
        if self not in _started:
            raise ConfigurationError("monitor: it takes no metrics yet; call start()")
        with self._lock:
            self._newest |= metrics
            self._num_updates += 1
            if self.config.enable_file_logging:
                self._write(json.dumps({"time_seconds": time.time(), "metrics": dict(metrics)}) + "\n")
            if self.config.enable_console_logging:
                shown = ", ".join(f"{name} {value:.4g}" for name, value in sorted(metrics.items()))
                print(f"monitor: {shown}", file=sys.stderr, flush=True)

    def get_comprehensive_stats(self) -> dict[str, Any]:
        """`num_updates`, the newest value of each of the `metrics`, and whether the monitor `is_running`."""
        with self._lock:
            known = {"num_updates": self._num_updates, "metrics": dict(self._newest)}
        return {**known, "is_running": self in _started}

    def _write(self, line: str) -> None:
        with Path(self.config.log_file_path).open("a", encoding="utf-8") as log:
            log.write(line)


def newest_monitor() -> UnifiedMonitor | None:
    """The monitor of this process that was started last and has not ended; None if there is none."""
    return _started[-1] if _started else None


def report_step(metrics: Mapping[str, float]) -> None:
    """Report a step of a training to the newest monitor, if there is one."""
    if (monitor := newest_monitor()) is None:
        return
    try:
        monitor.update_metrics(metrics)
    except OSError as error:  # a full disk of the log does not end a training, whose records are elsewhere
        _log.warning("the monitor misses a step: %s", error)


create_unified_monitor = UnifiedMonitor
