"""The training runs of a home folder: which flow run is which process, and what Prefect and MLflow are told of its end.

A process that is killed tells nobody. Its record stays, and whoever comes next tells in its place.
"""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from components.artifacts.refs import Frozen
from components.errors import TroupeError
from components.processes import may_run, this_process
from tasks.trackers import mlflow_tracker

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

GRACE_SECONDS = 40.0
"""How long a run may take to end in order."""


class ActiveRun(Frozen):
    """One flow run and the process that works on it. `told_tracking`: that process said the end to MLflow itself."""

    flow_run_id: str
    run_id: str
    host: str
    pid: int
    process: str | None = None
    """Its ProcessId; None in records of versions that wrote `process_started`, which moves with the clock."""
    process_started: float | None = None
    api_url: str
    tracking_url: str | None
    experiment: str
    told_tracking: bool = False

    @property
    def is_alive(self) -> bool:
        """Whether the process runs. One of another host counts as alive: it cannot be seen from here."""
        return may_run(self.host, self.pid, self.process)


class RunRecord:
    """The record of this process's own run. `is_published` says at its end whether MLflow knows how it ended."""

    def __init__(self) -> None:
        self.is_published: Callable[[], bool] = lambda: False


@contextmanager
def recorded_run(
    home: Path, *, flow_run_id: str, run_id: str, api_url: str, tracking_url: str | None, experiment: str
) -> Iterator[RunRecord]:
    """Inside, this process is on record as working on the flow run; the record stays for whoever comes next."""
    process = this_process()
    run = ActiveRun(
        flow_run_id=flow_run_id,
        run_id=run_id,
        host=socket.gethostname(),
        pid=process.pid,
        process=str(process),
        api_url=api_url,
        tracking_url=tracking_url,
        experiment=experiment,
    )
    _write(home, run)
    record = RunRecord()
    try:
        yield record
    finally:
        _write(home, run.model_copy(update={"told_tracking": record.is_published()}))


def recorded_runs(home: Path) -> list[ActiveRun]:
    """All records, those of processes that have ended included. A record that cannot be read is left out."""
    found = []
    for path in sorted((home / "runs").glob("*.json")):
        with suppress(ValueError, FileNotFoundError):
            found.append(ActiveRun.model_validate_json(path.read_bytes()))
    return found


def end_active_runs(home: Path, *, grace_seconds: float = GRACE_SECONDS) -> list[str]:
    """End every training of this host in order, and tell Prefect and MLflow; the runs' names.

    SIGTERM first: the run ends its workers and boxes and says how it ended. SIGKILL after `grace_seconds`.
    """
    # A record without its ProcessId may mean another process than the one that has its number.
    here = [run for run in recorded_runs(home) if run.process and run.is_alive and run.host == socket.gethostname()]
    processes = {}
    for run in here:
        with suppress(psutil.NoSuchProcess):
            processes[run.pid] = psutil.Process(run.pid)
            os.kill(run.pid, signal.SIGTERM)
    _, left = psutil.wait_procs(list(processes.values()), timeout=grace_seconds)
    for process in left:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(left, timeout=10)
    settle_dead_runs(home)
    return sorted({run.run_id for run in here})


def settle_dead_runs(home: Path) -> list[str]:
    """Say of every run whose process has ended that it has ended, where Prefect or MLflow still calls it running.

    The names of the runs that had ended without a word. Needs the environment of a client of the services that are up; what
    does not answer is told the next time.
    """
    runs = recorded_runs(home)
    alive = {run.run_id for run in runs if run.is_alive}
    settled = []
    for run in runs:
        if run.is_alive or run.api_url != os.environ.get("PREFECT_API_URL", ""):
            continue
        with suppress(TroupeError):
            was_running = _tell_prefect(run)
            if not run.told_tracking and run.run_id not in alive:
                was_running = _tell_tracking(run) or was_running
            _path(home, run.flow_run_id).unlink(missing_ok=True)
            if was_running:
                settled.append(run.run_id)
    return settled


def _tell_prefect(run: ActiveRun) -> bool:
    """Set the flow run, and the child runs that it left, to Crashed where they have not ended; whether there was need."""
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    from components.errors import PrefectUnavailable

    try:
        with get_client(sync_client=True) as client:
            try:
                found = client.read_flow_run(run.flow_run_id)  # type: ignore[arg-type]
            except ObjectNotFound:
                return False
            unfinished = [child for child in (found, *_children(client, found)) if not _is_final(child)]
            for flow_run in unfinished:
                _crash(client, flow_run, run)
            return bool(unfinished)
    except httpx.HTTPError as error:
        raise PrefectUnavailable(f"Prefect at {run.api_url} does not answer ({error})") from error


def _children(client: "SyncPrefectClient", parent: Any) -> list[Any]:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    of_parent = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[parent.id]))
    return list(client.read_flow_runs(flow_run_filter=of_parent))


def _is_final(flow_run: Any) -> bool:
    return flow_run.state is not None and flow_run.state.is_final()


def _crash(client: "SyncPrefectClient", flow_run: Any, run: ActiveRun) -> None:
    from prefect.states import Crashed

    message = f"Process {run.pid} of {run.host}, which worked on run {run.run_id}, ended without a word."
    client.set_flow_run_state(flow_run.id, Crashed(message=message), force=True)


def _tell_tracking(run: ActiveRun) -> bool:
    """Mark the run KILLED in MLflow where it is called running; whether it was."""
    if run.tracking_url is None:
        return False
    return mlflow_tracker(run.tracking_url, run.experiment, register_models=False).mark_killed(run.run_id)


def _write(home: Path, run: ActiveRun) -> None:
    path = _path(home, run.flow_run_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(run.model_dump_json(indent=1))
    partial.replace(path)


def _path(home: Path, flow_run_id: str) -> Path:
    return home / "runs" / f"{flow_run_id}.json"
