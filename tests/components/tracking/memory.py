"""A tracker that keeps everything in memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from components.errors import TrackingUnavailable
from components.schema import EvalReport, IterationReport
from components.tracking.base import EpisodeTrace, ProblemSet, TeamCheckpoint
from components.tracking.metric_points import read_evaluation_points, read_iteration_points


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackedCheckpoint:
    """A registered checkpoint. `parent` is the version that was newest when this one was registered, if any."""

    team: TeamCheckpoint
    version: int
    parent: int | None
    files_are_there: bool = True


@dataclass(slots=True, kw_only=True)
class TrackedRun:
    """What one run published. `points` holds (name, step, timestamp_ms, value), each once."""

    params: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    points: set[tuple[str, int, int, float]] = field(default_factory=set)
    checkpoints: list[TrackedCheckpoint] = field(default_factory=list)
    traces: dict[str, EpisodeTrace] = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    problems: tuple[ProblemSet, ...] = ()
    ends: list[bool] = field(default_factory=list)
    """For each end, whether there was news."""
    status: str = "RUNNING"


class InMemoryTracker:
    """A Tracker over dictionaries. While `available` is false every method raises TrackingUnavailable(`why_not`)."""

    def __init__(
        self, *, available: bool = True, why_not: str = "the in-memory tracker is switched off; set available to True"
    ) -> None:
        self.available = available
        self.why_not = why_not
        self.runs: dict[str, TrackedRun] = {}

    def check(self) -> None:
        """Raise TrackingUnavailable unless `available`."""
        if not self.available:
            raise TrackingUnavailable(self.why_not)

    def open_run(
        self, run_id: str, params: Mapping[str, str], tags: Mapping[str, str], problems: Sequence[ProblemSet] = ()
    ) -> None:
        """Create or reopen the run. A parameter keeps its first value."""
        self.check()
        run = self._run(run_id)
        run.params |= {name: value for name, value in params.items() if name not in run.params}
        run.tags |= tags
        run.problems = tuple(problems)
        run.status = "RUNNING"

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        """Keep the metrics and timings of one step."""
        self._add(report.run_id, read_iteration_points(report), report.step, timestamp_ms)

    def publish_evaluation(self, run_id: str, report: EvalReport, *, model: str, timestamp_ms: int) -> None:
        """Keep a held-out evaluation."""
        self._add(run_id, read_evaluation_points(report), report.step, timestamp_ms)

    def publish_checkpoint(self, run_id: str, checkpoint: TeamCheckpoint) -> None:
        """Register a checkpoint unless (step, digest) is registered."""
        self.check()
        checkpoints = self._run(run_id).checkpoints
        if any((c.team.step, c.team.digest) == (checkpoint.step, checkpoint.digest) for c in checkpoints):
            return
        versions = [c.version for c in checkpoints]
        checkpoints.append(
            TrackedCheckpoint(team=checkpoint, version=len(versions) + 1, parent=max(versions, default=None))
        )

    def publish_traces(self, run_id: str, traces: Sequence[EpisodeTrace], *, timestamp_ms: int) -> None:
        """Keep the episodes."""
        self.check()
        self._run(run_id).traces |= {trace.key: trace for trace in traces}

    def publish_file(self, run_id: str, name: str, content: bytes) -> None:
        """Keep the file."""
        self.check()
        self._run(run_id).files[name] = content

    def mark_files(self, run_id: str, checkpoint: TeamCheckpoint, *, are_there: bool) -> None:
        """Record whether the files of a checkpoint are still in the store."""
        self.check()
        run = self._run(run_id)
        run.checkpoints = [
            replace(c, files_are_there=are_there)
            if (c.team.step, c.team.digest) == (checkpoint.step, checkpoint.digest)
            else c
            for c in run.checkpoints
        ]

    def finish_run(self, run_id: str, *, succeeded: bool, has_news: bool = True) -> None:
        """Mark the run FINISHED or FAILED."""
        self.check()
        self._run(run_id).status = "FINISHED" if succeeded else "FAILED"
        self._run(run_id).ends.append(has_news)

    def remove_run(self, run_id: str) -> list[str]:
        """Forget the run and its checkpoints."""
        self.check()
        run = self.runs.pop(run_id, None)
        models = sorted({f"model {each.team.model}" for each in run.checkpoints}) if run else []
        return [f"run {run_id}", *models] if run else []

    def run_url(self, run_id: str) -> None:
        """None: there are no pages."""
        return

    def history(self, run_id: str, name: str) -> list[tuple[int, float]]:
        """(step, value) of one metric in the order of steps."""
        points = self.runs[run_id].points if run_id in self.runs else set()
        return sorted((step, value) for metric, step, _, value in points if metric == name)

    def _add(self, run_id: str, points: Mapping[str, float], step: int, timestamp_ms: int) -> None:
        self.check()
        self._run(run_id).points |= {(name, step, timestamp_ms, value) for name, value in points.items()}

    def _run(self, run_id: str) -> TrackedRun:
        return self.runs.setdefault(run_id, TrackedRun())
