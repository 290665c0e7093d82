"""The outbox: reports are durable in the store before they are published, and publishing is retried until it succeeds.

Under `runs/<run_id>/outbox/` the entry `<step>-<kind>.json` holds the report and the time at which it was posted;
`<step>-<kind>.published` says that the tracker has it. After a crash between publishing and marking, the same content is
published again with the same time, which a Tracker records once.
"""

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import make_damage_error, read_as, with_digest
from components.artifacts.refs import ArtifactRef
from components.errors import PermanentError, StoreUnavailable, TrackingNotConfigured, TrackingUnavailable
from components.frozen import Frozen
from components.schema import EvalReport, IterationReport
from components.tracking.base import EpisodeTrace, ProblemSet, TeamCheckpoint, Tracker

Kind = Literal["iteration", "evaluation", "checkpoint", "traces", "file"]
_ITERATION = TypeAdapter(IterationReport)
_EVALUATION = TypeAdapter(EvalReport)


class OutboxEntry(Frozen):
    """A stored report. `timestamp_ms` is fixed when it is posted, so that a repetition is equal."""

    kind: Kind
    timestamp_ms: int
    report: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """The result of one attempt to publish. `error` says why something is pending; `may_recover`: a service was only away;
    `is_expected`: no tracking server is named, which the start of the run has said."""

    num_published: int
    num_pending: int
    error: str | None = None
    may_recover: bool = False
    is_expected: bool = False


class Outbox:
    """The reports of one run. One thread posts, one other may drain at the same time.

    `params`, `tags` and `problems` describe the run in the tracker; `model` is the line of teams it belongs to. The store is
    listed only at the first drain, for the entries of earlier processes.
    """

    def __init__(
        self,
        store: ArtifactStore,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        problems: Sequence[ProblemSet] = (),
        model: str = "",
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._params, self._tags = dict(params or {}), dict(tags or {})
        self._problems, self._model = tuple(problems), model or run_id
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._pending: dict[str, OutboxEntry | None] = {}
        self._settled: set[str] = set()
        self._refused: dict[str, str] = {}
        self._run_refused: str | None = None
        self._is_recovered = False
        self._is_open = False
        self._has_news = False
        self.is_finished = False
        """Whether the tracker has recorded the run's end."""

    def post_iteration(self, report: IterationReport, *, lineage: int = 0) -> None:
        """Post a step's report, once per (step, lineage)."""
        self._post(f"{report.step:06d}-iteration{_suffix(lineage)}", "iteration", dataclasses.asdict(report))

    def post_metrics(self, step: int, name: str, metrics: Mapping[str, float], *, lineage: int = 0) -> None:
        """Post figures of a run after `step` updates beside those of its steps, once per (step, name, lineage)."""
        report = IterationReport(
            run_id=self._run_id, step=step, metrics=metrics, timings={}, checkpoint_digest={}, optimizer_digest={}
        )
        self._post(f"{step:06d}-{name}{_suffix(lineage)}", "iteration", dataclasses.asdict(report))

    def post_evaluation(self, report: EvalReport, *, lineage: int = 0) -> None:
        """Post an evaluation, once per (step, suite, sampling, lineage)."""
        name = f"{report.step:06d}-evaluation-{_spell(report.suite)}-{report.sampling}{_suffix(lineage)}"
        self._post(name, "evaluation", dataclasses.asdict(report))

    def post_checkpoint(self, checkpoint: TeamCheckpoint) -> None:
        """Post a checkpoint for registration, once per (step, digest)."""
        name = f"{checkpoint.step:06d}-checkpoint-{checkpoint.digest}"
        self._post(name, "checkpoint", checkpoint.model_dump(mode="json"))

    def post_traces(self, step: int, traces: Sequence[EpisodeTrace], *, lineage: int = 0) -> None:
        """Post episodes of a step, once per (step, lineage)."""
        shown = [trace.model_dump(mode="json") for trace in traces]
        self._post(f"{step:06d}-traces{_suffix(lineage)}", "traces", {"traces": shown})

    def post_file(self, step: int, name: str, content: ArtifactRef, *, lineage: int = 0) -> None:
        """Post a file by the name that the tracker gives it, once per (step, name, lineage). `content` must be durable."""
        entry = {"name": name, "content": content.model_dump(mode="json")}
        self._post(f"{step:06d}-file-{_spell(name)}{_suffix(lineage)}", "file", entry)

    @property
    def num_pending(self) -> int:
        """Reports that this process does not know to be published."""
        with self._lock:
            return len(self._pending)

    @property
    def refusal(self) -> str | None:
        """Why the tracker refuses reports for good; None unless it does."""
        return next(iter(self._refused.values()), self._run_refused)

    def drain(self, tracker: Tracker) -> DrainReport:
        """Publish what is pending, by step. Errors of the tracker or the store end the attempt and are reported, not raised.

        An entry that the tracker refuses for good stays pending, is named in `error`, and does not delay the others.
        """
        return self._attempt(tracker)

    def finish(self, tracker: Tracker, *, succeeded: bool) -> DrainReport:
        """Drain, and if nothing is left mark the run's end in the tracker."""
        return self._attempt(tracker, succeeded=succeeded)

    def _attempt(self, tracker: Tracker, *, succeeded: bool | None = None) -> DrainReport:
        num_published, error, may_recover, is_expected = 0, None, False, False
        try:
            self._recover()
            if not self._is_open:
                tracker.open_run(self._run_id, self._params, self._tags, self._problems)
                self._is_open = True
            while due := self._due():
                for name in due:
                    num_published += self._publish(tracker, name)
            error = "; ".join(self._refused.values()) or None
            if succeeded is not None and error is None:
                tracker.finish_run(self._run_id, succeeded=succeeded, has_news=self._has_news)
                self.is_finished = True
        except TrackingNotConfigured as missing:
            error, is_expected = str(missing), True
        except (TrackingUnavailable, StoreUnavailable) as away:
            error, may_recover = str(away), True
        except PermanentError as refusal:
            error = self._run_refused = str(refusal)
        return DrainReport(
            num_published=num_published,
            num_pending=self.num_pending,
            error=error,
            may_recover=may_recover,
            is_expected=is_expected,
        )

    def _post(self, name: str, kind: Kind, report: dict[str, Any]) -> None:
        with self._lock:
            if name in self._pending or name in self._settled:
                return
        entry = OutboxEntry(kind=kind, timestamp_ms=self._now_ms(), report=report)
        is_new = self._store.create(self._key(name, "json"), with_digest(entry.model_dump()))
        with self._lock:
            if name not in self._settled:
                self._pending[name] = entry if is_new else None

    def _recover(self) -> None:
        """List once the entries of earlier processes."""
        if self._is_recovered:
            return
        names = {key.rpartition("/")[2] for key in self._store.list(f"runs/{self._run_id}/outbox/")}
        published = {name.removesuffix(".published") for name in names if name.endswith(".published")}
        posted = {name.removesuffix(".json") for name in names if name.endswith(".json")}
        with self._lock:
            self._settled |= published
            self._pending = {name: self._pending.get(name) for name in (posted | self._pending.keys()) - published}
            self._is_recovered = True

    def _due(self) -> list[str]:
        with self._lock:
            return sorted(self._pending.keys() - self._refused.keys())

    def _publish(self, tracker: Tracker, name: str) -> int:
        """1 if the entry was published and marked, 0 if the tracker refused it."""
        try:
            self._send(tracker, name, self._entry(name))
        except PermanentError as error:
            self._refused[name] = f"{name}: {error}"
            return 0
        self._has_news = True
        self._store.create(self._key(name, "published"), b"1")
        with self._lock:
            self._settled.add(name)
            self._pending.pop(name, None)
        return 1

    def _entry(self, name: str) -> OutboxEntry:
        with self._lock:
            entry = self._pending.get(name)
        if entry is not None:
            return entry
        content = self._store.read(self._key(name, "json"))
        assert content is not None, f"outbox entry {name} of run {self._run_id} was posted and is gone"
        return read_as(self._key(name, "json"), content, OutboxEntry)

    def _send(self, tracker: Tracker, name: str, entry: OutboxEntry) -> None:
        try:
            match entry.kind:
                case "iteration":
                    report = _ITERATION.validate_python(entry.report)
                    tracker.publish_iteration(report, timestamp_ms=entry.timestamp_ms)
                case "evaluation":
                    evaluation = _EVALUATION.validate_python(entry.report)
                    about: dict[str, Any] = {"model": self._model, "timestamp_ms": entry.timestamp_ms}
                    tracker.publish_evaluation(self._run_id, evaluation, **about)
                case "checkpoint":
                    tracker.publish_checkpoint(self._run_id, TeamCheckpoint.model_validate(entry.report))
                case "traces":
                    traces = [EpisodeTrace.model_validate(each) for each in entry.report["traces"]]
                    tracker.publish_traces(self._run_id, traces, timestamp_ms=entry.timestamp_ms)
                case "file":
                    content = self._store.get_bytes(ArtifactRef.model_validate(entry.report["content"]))
                    tracker.publish_file(self._run_id, str(entry.report["name"]), content)
        except ValidationError as error:
            raise make_damage_error(
                self._key(name, "json"), f"no {entry.kind} report of this version of Troupe"
            ) from error

    def _key(self, name: str, ending: Literal["json", "published"]) -> str:
        return f"runs/{self._run_id}/outbox/{name}.{ending}"


def _suffix(lineage: int) -> str:
    return f"-l{lineage}" if lineage else ""


def _spell(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
