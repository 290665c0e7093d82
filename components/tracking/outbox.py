"""The outbox: a report is durable in the store before anybody publishes it, and is published until it has arrived.

Under `runs/<run_id>/outbox/` an entry `<step>-<kind>.json` holds the report and the time at which it was posted; its twin
`<step>-<kind>.published` says that the tracker has it. A crash between publishing and marking publishes the same content
at the same time again, which a Tracker records once.
"""

import dataclasses
import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import damaged, read_as, sealed
from components.artifacts.refs import Frozen
from components.errors import PermanentError, StoreUnavailable, TrackingUnavailable
from components.schema import EvalReport, IterationReport
from components.tracking.base import Tracker

R = TypeVar("R")
_ITERATION = TypeAdapter(IterationReport)
_EVALUATION = TypeAdapter(EvalReport)


class OutboxEntry(Frozen):
    """One report that is due, as stored. `timestamp_ms` is fixed when it is posted, so that a repeat is equal."""

    kind: Literal["iteration", "evaluation", "checkpoint"]
    timestamp_ms: int
    report: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrainReport:
    """What one attempt to publish did. `error` says why something is still pending, `may_recover` whether a service was
    only away."""

    num_published: int
    num_pending: int
    error: str | None = None
    may_recover: bool = False


class Outbox:
    """The reports of one run. Posting is for the pipeline's thread, draining for any one other; both may overlap.

    `params` and `tags` describe the run in the tracker. The store is listed once, at the first drain, for what an earlier
    process left; after that this process remembers what it posted.
    """

    def __init__(
        self,
        store: ArtifactStore,
        run_id: str,
        *,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._params, self._tags = dict(params or {}), dict(tags or {})
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._pending: dict[str, OutboxEntry | None] = {}
        self._settled: set[str] = set()
        self._refused: dict[str, str] = {}
        self._is_recovered = False
        self._is_open = False
        self.is_finished = False
        """Whether the tracker knows how the run ended."""

    def post_iteration(self, report: IterationReport, *, lineage: int = 0) -> None:
        """Make a step's report due. Posted again, the first one stands; a new lineage of the step is a new report."""
        self._post(f"{report.step:06d}-iteration{_suffix(lineage)}", "iteration", dataclasses.asdict(report))

    def post_evaluation(self, report: EvalReport, *, lineage: int = 0) -> None:
        """Make an evaluation due, once per (step, suite, sampling, lineage)."""
        name = f"{report.step:06d}-evaluation-{_spelled(report.suite)}-{report.sampling}{_suffix(lineage)}"
        self._post(name, "evaluation", dataclasses.asdict(report))

    def post_checkpoint(self, *, policy: str, step: int, weights_digest: str, folder_uri: str) -> None:
        """Make a checkpoint due for registration, once per (policy, step, digest)."""
        name = f"{step:06d}-checkpoint-{_spelled(policy)}-{_spelled(weights_digest)[:16]}"
        report = {"policy": policy, "step": step, "weights_digest": weights_digest, "folder_uri": folder_uri}
        self._post(name, "checkpoint", report)

    @property
    def num_pending(self) -> int:
        """Reports that are not known to have arrived, as far as this process has looked."""
        with self._lock:
            return len(self._pending)

    def drain(self, tracker: Tracker) -> DrainReport:
        """Publish what is due, by step. A tracker or store that fails ends the attempt and is reported, not raised.

        An entry that the tracker refuses for good stays pending, is named in `error`, and holds up no other.
        """
        num_published = 0
        try:
            self._recover()
            if not self._is_open:
                tracker.open_run(self._run_id, self._params, self._tags)
                self._is_open = True
            while due := self._due():
                for name in due:
                    num_published += self._publish(tracker, name)
        except (TrackingUnavailable, StoreUnavailable) as error:
            return self._report(num_published, str(error), may_recover=True)
        except PermanentError as error:
            return self._report(num_published, str(error))
        return self._report(num_published, "; ".join(self._refused.values()) or None)

    def finish(self, tracker: Tracker, *, succeeded: bool) -> DrainReport:
        """Drain, and mark the run's end in the tracker when nothing is left."""
        report = self.drain(tracker)
        if report.error is None:
            try:
                tracker.finish_run(self._run_id, succeeded=succeeded)
                self.is_finished = True
            except TrackingUnavailable as error:
                return self._report(report.num_published, str(error), may_recover=True)
            except PermanentError as error:
                return self._report(report.num_published, str(error))
        return report

    def _post(self, name: str, kind: Literal["iteration", "evaluation", "checkpoint"], report: dict[str, Any]) -> None:
        with self._lock:
            if name in self._pending or name in self._settled:
                return
        entry = OutboxEntry(kind=kind, timestamp_ms=self._now_ms(), report=report)
        is_new = self._store.create(self._key(name, "json"), sealed(entry.model_dump()))
        with self._lock:
            if name not in self._settled:
                self._pending[name] = entry if is_new else None

    def _recover(self) -> None:
        """Learn once what earlier processes posted and published."""
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
        """1 when the entry has arrived and is marked so, 0 when the tracker refused it."""
        try:
            self._send(tracker, name, self._entry(name))
        except PermanentError as error:
            self._refused[name] = f"{name}: {error}"
            return 0
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
        match entry.kind:
            case "iteration":
                report = self._report_as(_ITERATION, name, entry)
                tracker.publish_iteration(report, timestamp_ms=entry.timestamp_ms)
            case "evaluation":
                evaluation = self._report_as(_EVALUATION, name, entry)
                tracker.publish_evaluation(self._run_id, evaluation, timestamp_ms=entry.timestamp_ms)
            case "checkpoint":
                tracker.publish_checkpoint(self._run_id, **entry.report)

    def _report_as(self, as_type: TypeAdapter[R], name: str, entry: OutboxEntry) -> R:
        try:
            return as_type.validate_python(entry.report)
        except ValidationError as error:
            raise damaged(self._key(name, "json"), f"no {entry.kind} report of this version of Troupe") from error

    def _report(self, num_published: int, error: str | None, *, may_recover: bool = False) -> DrainReport:
        num_pending = self.num_pending
        return DrainReport(num_published=num_published, num_pending=num_pending, error=error, may_recover=may_recover)

    def _key(self, name: str, ending: Literal["json", "published"]) -> str:
        return f"runs/{self._run_id}/outbox/{name}.{ending}"


def _suffix(lineage: int) -> str:
    return f"-l{lineage}" if lineage else ""


def _spelled(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)
