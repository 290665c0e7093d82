"""Who has worked on a run and how it ended: one record for each start, one for its end."""

import os
import socket
from datetime import UTC, datetime
from typing import Literal

import psutil

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as, sealed
from components.artifacts.refs import Frozen
from tasks.run import Run


class SessionStart(Frozen):
    """One start of a run. Host, pid and process start time tell whether it still goes on."""

    number: int
    started_at: str
    host: str
    pid: int
    process_started: float
    num_steps: int


class SessionEnd(Frozen):
    """How a session ended. One that was killed leaves none."""

    ended_at: str
    error: str | None


class RunState(Frozen):
    """What a run is doing, its newest error, and the steps that its newest session aims at."""

    name: Literal["completed", "running", "failed", "interrupted"]
    error: str | None
    num_steps: int


def begin_session(store: ArtifactStore, run: Run) -> SessionStart:
    """Record that this process works on `run`."""
    process = psutil.Process()
    # Counted, not read: a damaged record of an earlier session is no reason not to begin.
    number = len(_start_keys(store, run.run_id)) + 1
    while True:
        start = SessionStart(
            number=number,
            started_at=datetime.now(UTC).isoformat(timespec="seconds"),
            host=socket.gethostname(),
            pid=os.getpid(),
            process_started=process.create_time(),
            num_steps=run.config.num_steps,
        )
        if store.create(_start_key(run.run_id, number), sealed(start.model_dump(mode="json"))):
            return start
        number += 1


def end_session(store: ArtifactStore, run_id: str, start: SessionStart, error: BaseException | None) -> None:
    """Record how the session ended."""
    text = None if error is None else f"{type(error).__name__}: {error}"
    end = SessionEnd(ended_at=datetime.now(UTC).isoformat(timespec="seconds"), error=text)
    store.create(_end_key(run_id, start.number), sealed(end.model_dump(mode="json")))


def session_records(store: ArtifactStore, run_id: str) -> list[SessionStart]:
    """All starts of a run, oldest first."""
    keys = _start_keys(store, run_id)
    contents = [(key, store.read(key)) for key in keys]
    return [read_as(key, content, SessionStart) for key, content in contents if content is not None]


def run_state(store: ArtifactStore, run: Run, num_finished: int) -> RunState:
    """The state that the newest session and the finished steps give."""
    records = session_records(store, run.run_id)
    num_steps = records[-1].num_steps if records else run.config.num_steps
    end_key = _end_key(run.run_id, records[-1].number) if records else ""
    content = store.read(end_key) if end_key else None
    end = None if content is None else read_as(end_key, content, SessionEnd)
    if end is None and records and _is_alive(records[-1]):
        return RunState(name="running", error=None, num_steps=num_steps)
    if end is not None and end.error is not None:
        return RunState(name="failed", error=end.error, num_steps=num_steps)
    name: Literal["completed", "interrupted"] = "completed" if end and num_finished >= num_steps else "interrupted"
    return RunState(name=name, error=None, num_steps=num_steps)


def _is_alive(start: SessionStart) -> bool:
    """Whether the session's process still runs. A session of another host counts as alive: it cannot be seen from here."""
    if start.host != socket.gethostname():
        return True
    try:
        return bool(abs(psutil.Process(start.pid).create_time() - start.process_started) < 1.0)
    except psutil.NoSuchProcess:
        return False


def _start_keys(store: ArtifactStore, run_id: str) -> list[str]:
    return [key for key in store.list(f"runs/{run_id}/sessions/") if key.endswith("/start.json")]


def _start_key(run_id: str, number: int) -> str:
    return f"runs/{run_id}/sessions/{number:04d}/start.json"


def _end_key(run_id: str, number: int) -> str:
    return f"runs/{run_id}/sessions/{number:04d}/end.json"
