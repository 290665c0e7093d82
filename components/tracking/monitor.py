"""A monitor: takes metrics as they come, writes them as JSON lines, and tells its listeners of those beyond their bounds.

Updates are queued and written by one thread, so that who measures waits for no disk. `stop` writes what is left before it
returns: nothing that was taken is lost, and a log that cannot be written is an error there, not a line that is missing.
"""

import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Literal

from components.errors import ConfigurationError
from components.schema import IterationReport
from components.tracking.base import Tracker
from components.whole_files import write_whole

_log = logging.getLogger(__name__)

Severity = Literal["warning", "critical"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What a metric must not fall below or rise above; one of both is given. `alert` names the breach."""

    metric: str
    alert: str
    severity: Severity = "warning"
    lowest: float | None = None
    highest: float | None = None

    def __post_init__(self) -> None:
        if (self.lowest is None) == (self.highest is None):
            raise ConfigurationError(f"bound of {self.metric!r}: give lowest or highest, one of both")

    def alert_for(self, metrics: Mapping[str, float]) -> "Alert | None":
        """The alert if the metrics hold this one, beyond the bound.

        **Example** highest .05, metrics {"error_rate": .2}: "error_rate 0.2: above 0.05".
        """
        value = metrics.get(self.metric)
        if value is None:
            return None
        if self.lowest is not None and value < self.lowest:
            message = f"{self.metric} {value:.4g}: below {self.lowest:g}"
        elif self.highest is not None and value > self.highest:
            message = f"{self.metric} {value:.4g}: above {self.highest:g}"
        else:
            return None
        return Alert(type=self.alert, severity=self.severity, message=message, metric=self.metric, value=value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A metric beyond its bound."""

    type: str
    severity: Severity
    message: str
    metric: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """What was measured at one time; `time_seconds` is since 1970."""

    time_seconds: float
    metrics: Mapping[str, float]


Listener = Callable[[Alert], None]
Sink = Callable[[Update], None]
"""Takes an update that is in the log, as to publish it. What it raises is logged, and stops nothing."""


class Monitor:
    """Between `start` and `stop`, or in a `with` block, takes updates from any thread.

    **Example** with a bound of .05 on error_rate, `update({"error_rate": .2})` writes a line and calls each listener once.
    """

    def __init__(
        self,
        *,
        log_file: Path | None = None,
        bounds: Sequence[Bound] = (),
        sinks: Sequence[Sink] = (),
        history: int = 1000,
        interval_seconds: float = 1.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`history` updates are kept for statistics; the log holds all."""
        self._log_file = log_file
        self._bounds = tuple(bounds)
        self._sinks = tuple(sinks)
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._listeners: list[Listener] = []
        self._waiting: list[Update] = []
        self._history: deque[Update] = deque(maxlen=history)
        self._num_updates = 0
        self._alerts: dict[str, int] = {}
        self._failure: OSError | None = None
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def is_running(self) -> bool:
        """Whether updates are taken."""
        return self._thread is not None

    def listen(self, listener: Listener) -> None:
        """Call `listener` for each alert from now on. One that raises is logged, and hinders no other."""
        with self._lock:
            self._listeners.append(listener)

    def start(self) -> None:
        """Begin to take updates; does nothing if it has begun."""
        with self._lock:
            if self._thread is not None:
                return
            self._stopping.clear()
            self._thread = threading.Thread(target=self._write_regularly, name="monitor", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Write what has come in, and end; does nothing if it has ended. Raises OSError if the log could not be written."""
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is None:
            return
        self._stopping.set()
        thread.join()
        self.flush()
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise OSError(
                f"{len(self._waiting)} updates of the monitor are not in {self._log_file}: {failure}"
            ) from failure

    def update(self, metrics: Mapping[str, float]) -> None:
        """Take a measurement. Raises ConfigurationError before `start`, and for a value that is no finite number."""
        for name, value in metrics.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
                raise ConfigurationError(f"metric {name!r} {value!r}: give a finite number, or leave it out")
        update = Update(time_seconds=self._clock(), metrics={name: float(value) for name, value in metrics.items()})
        with self._lock:
            if self._thread is None:
                raise ConfigurationError("monitor: it takes no metrics yet; call start()")
            self._waiting.append(update)
            self._history.append(update)
            self._num_updates += 1
            listeners = tuple(self._listeners)
            alerts = [alert for bound in self._bounds if (alert := bound.alert_for(update.metrics)) is not None]
            for alert in alerts:
                self._alerts[alert.type] = self._alerts.get(alert.type, 0) + 1
        for alert in alerts:
            for listener in listeners:
                _tell(listener, alert)

    def flush(self) -> None:
        """Write what has come in so far, in its order. What could not be written is tried again by the next call."""
        with self._writing:
            with self._lock:
                taken, self._waiting = self._waiting, []
            if not taken or not self._write(taken):
                return
            for update in taken:
                for sink in self._sinks:
                    _send(sink, update)

    def _write(self, taken: list[Update]) -> bool:
        """Append the updates to the log in one write; False, with all of them kept for the next attempt, if that fails."""
        if self._log_file is None:
            return True
        try:
            self._log_file.parent.mkdir(parents=True, exist_ok=True)
            with self._log_file.open("a", encoding="utf-8") as log:
                log.write("".join(json.dumps(asdict(each)) + "\n" for each in taken))
        except OSError as error:
            with self._lock:
                self._waiting = taken + self._waiting
            self._failure = error
            return False
        self._failure = None
        return True

    def report(self) -> dict[str, Any]:
        """What was measured: `num_updates`, and of each metric in the history its count, latest, mean, lowest and highest;
        how often each alert was raised."""
        with self._lock:
            history, num_updates, alerts = tuple(self._history), self._num_updates, dict(self._alerts)
        values: dict[str, list[float]] = {}
        for update in history:
            for name, value in update.metrics.items():
                values.setdefault(name, []).append(value)
        metrics = {
            name: {
                "count": len(each),
                "latest": each[-1],
                "mean": sum(each) / len(each),
                "lowest": min(each),
                "highest": max(each),
            }
            for name, each in sorted(values.items())
        }
        seconds = history[-1].time_seconds - history[0].time_seconds if history else 0.0
        return {"num_updates": num_updates, "seconds": seconds, "metrics": metrics, "alerts": alerts}

    def write_report(self, path: Path) -> None:
        """Write `report` as JSON, whole or not at all."""
        write_whole(path, json.dumps(self.report(), indent=2))

    def __enter__(self) -> "Monitor":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _write_regularly(self) -> None:
        while not self._stopping.wait(self._interval_seconds):
            self.flush()


def _send(sink: Sink, update: Update) -> None:
    try:
        sink(update)
    except Exception as error:  # the border to code that is not ours
        _log.warning("a sink of the monitor failed with %s: %s", type(error).__name__, error)


def _tell(listener: Listener, alert: Alert) -> None:
    try:
        listener(alert)
    except Exception as error:  # the border to code that is not ours
        _log.warning("a listener failed at %s with %s: %s", alert.type, type(error).__name__, error)


def tracker_sink(tracker: Tracker, run_id: str) -> Sink:
    """A sink that publishes each update as a step of the tracked run `run_id`, in the order in which they come."""
    num_published = 0

    def publish(update: Update) -> None:
        nonlocal num_published
        report = IterationReport(
            run_id=run_id,
            step=num_published,
            metrics=dict(update.metrics),
            timings={},
            checkpoint_digest={},
            optimizer_digest={},
        )
        tracker.publish_iteration(report, timestamp_ms=int(update.time_seconds * 1000))
        num_published += 1

    return publish


def read_log(path: Path) -> list[Update]:
    """The updates of a log, in the order in which they came; a last line that a crash cut off is left out."""
    updates = []
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        with suppress(ValueError):
            if line.endswith("\n"):
                updates.append(Update(**json.loads(line)))
    return updates
