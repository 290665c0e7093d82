"""Records of sessions: one at the start of each, one at its end."""

import re
import socket
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as, with_digest
from components.config import RetentionConfig
from components.errors import ArtifactCorrupt
from components.frozen import Frozen
from components.machine.process_ids import may_run, this_process
from components.runs.lineages import Lineage, read_config
from components.runs.pipeline import Pipeline
from components.runs.provenance import Provenance, provenance
from components.runs.run import Run
from components.stage_roles import Roles

SESSION_START = re.compile(r"runs/[^/]+/sessions/[^/]+/start\.json")


class SessionStart(Frozen):
    """One session's start. Its process tells whether it is still running."""

    number: int
    started_at: str
    host: str
    pid: int
    process: str
    """Its ProcessId."""
    num_steps: int
    lineage: int = 0
    """The run's newest restart at that time; 0 before any."""
    provenance: Provenance
    """The versions that compute."""
    retention: RetentionConfig | None = None
    """The checkpoints of the run that garbage collection keeps since then; None: those of its configuration."""
    sandbox_image: str | None = None
    """The digest of the image in which its programs run; None: it runs none, or an older Troupe began it."""
    records_collections: bool = False
    """Whether garbage collection records what it removes of the run; an older Troupe's did not."""
    roles: Roles = Roles()
    """Those of the stages, whose versions `provenance` has."""

    @property
    def is_alive(self) -> bool:
        """Whether its process still runs. A process on another host counts as alive, since it cannot be checked."""
        return may_run(self.host, self.process)


class SessionEnd(Frozen):
    """How a session ended. A killed session leaves no such record."""

    ended_at: str
    error: str | None


class RunState(Frozen):
    """A run's state, its newest error, and the number of steps that its newest session asked for."""

    name: Literal["completed", "running", "failed", "interrupted"]
    error: str | None
    num_steps: int


def begin_session(
    store: ArtifactStore, run: Run, pipeline: Pipeline, *, sandbox_image: str | None = None
) -> SessionStart:
    """Record that this process works on `run`, with its versions."""
    process = this_process()
    # Counted, not read: a damaged record must not prevent a start.
    number = len(_start_keys(store, run.run_id)) + 1
    while True:
        start = SessionStart(
            number=number,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            host=socket.gethostname(),
            pid=process.pid,
            process=str(process),
            num_steps=run.config.num_steps,
            lineage=newest_lineage(run),
            provenance=provenance(pipeline),
            retention=run.config.retention,
            sandbox_image=sandbox_image,
            records_collections=True,
            roles=pipeline.roles,
        )
        if store.create(_start_key(run.run_id, number), with_digest(start.model_dump(mode="json"))):
            return start
        number += 1


def end_session(store: ArtifactStore, run_id: str, start: SessionStart, error: BaseException | None) -> None:
    """Record how the session ended."""
    text = None if error is None else f"{type(error).__name__}: {error}"
    end = SessionEnd(ended_at=datetime.now(UTC).isoformat(timespec="seconds"), error=text)
    store.create(end_key(run_id, start.number), with_digest(end.model_dump(mode="json")))


def session_records(store: ArtifactStore, run_id: str) -> list[SessionStart]:
    """All starts of a run, oldest first."""
    keys = _start_keys(store, run_id)
    contents = [(key, store.read(key)) for key in keys]
    return [read_as(key, content, SessionStart) for key, content in contents if content is not None]


def live_sessions(store: ArtifactStore, run_id: str) -> list[SessionStart]:
    """Sessions that may still be running, oldest first."""
    keys = set(store.list(f"runs/{run_id}/sessions/"))
    unended = [key for key in _start_keys(store, run_id) if key.replace("/start.json", "/end.json") not in keys]
    return [session for session in _readable(store, unended) if session.is_alive]


def readable_sessions(store: ArtifactStore, run_id: str) -> list[SessionStart]:
    """A run's readable session starts, oldest first. Damaged ones are skipped."""
    return _readable(store, _start_keys(store, run_id))


def read_roles(store: ArtifactStore, run_id: str) -> Roles:
    """The roles of a run's stages, from the newest start of a session that can be read."""
    return next((each.roles for each in reversed(readable_sessions(store, run_id))), Roles())


def _readable(store: ArtifactStore, keys: Sequence[str]) -> list[SessionStart]:
    found = []
    for key in keys:
        try:
            content = store.read(key)
            if content is not None:
                found.append(read_as(key, content, SessionStart))
        except ArtifactCorrupt:
            continue
    return found


def newest_lineage(run: Run) -> int:
    """The number of the run's newest restart, 0 before any."""
    return run.lineages[-1].lineage if run.lineages else 0


def effective_run(store: ArtifactStore, run: Run) -> Run:
    """The run without trailing restarts that have no results and no live session."""
    lineages = standing_lineages(store, run.run_id, run.lineages)
    if len(lineages) == len(run.lineages):
        return run
    config = lineages[-1].config if lineages else read_config(store, run.run_id)
    return Run(run_id=run.run_id, config=config or run.config, lineages=lineages).bind_to_store(run.config.store)


def standing_lineages(store: ArtifactStore, run_id: str, lineages: tuple[Lineage, ...]) -> tuple[Lineage, ...]:
    """The restarts without trailing ones that have no results and no live session."""
    while lineages and not _has_begun(store, run_id, lineages[-1]):
        lineages = lineages[:-1]
    return lineages


def _has_begun(store: ArtifactStore, run_id: str, lineage: Lineage) -> bool:
    steps = f"runs/{run_id}/steps/{lineage.from_step:06d}/"
    left = re.compile(rf"{re.escape(steps)}[^/]+/[^/]+/l{lineage.lineage}-[^/]+/manifest\.json")
    if any(left.fullmatch(key) for key in store.list(steps)):
        return True
    return any(session.lineage == lineage.lineage for session in live_sessions(store, run_id))


def run_state(store: ArtifactStore, run: Run, num_finished: int) -> RunState:
    """The run's state, from its newest session and the number of finished steps."""
    standing = {0, *(lineage.lineage for lineage in run.lineages)}
    records = [record for record in session_records(store, run.run_id) if record.lineage in standing]
    num_steps = records[-1].num_steps if records else run.config.num_steps
    key = end_key(run.run_id, records[-1].number) if records else ""
    content = store.read(key) if key else None
    end = None if content is None else read_as(key, content, SessionEnd)
    if end is None and records and records[-1].is_alive:
        return RunState(name="running", error=None, num_steps=num_steps)
    if end is not None and end.error is not None:
        return RunState(name="failed", error=end.error, num_steps=num_steps)
    name: Literal["completed", "interrupted"] = "completed" if end and num_finished >= num_steps else "interrupted"
    return RunState(name=name, error=None, num_steps=num_steps)


def _start_keys(store: ArtifactStore, run_id: str) -> list[str]:
    return [key for key in store.list(f"runs/{run_id}/sessions/") if key.endswith("/start.json")]


def _start_key(run_id: str, number: int) -> str:
    return f"runs/{run_id}/sessions/{number:04d}/start.json"


def end_key(run_id: str, number: int) -> str:
    """The key of the record of how a session ended."""
    return f"runs/{run_id}/sessions/{number:04d}/end.json"
