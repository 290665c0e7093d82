"""The training runs of a home folder: the process of each flow run, and reports of its end to Prefect and MLflow.

A killed process reports nothing. Its record stays, and the next process reports in its place. By then another process may work
on the same flow run, after Prefect's Retry, or on the same MLflow run: a report is made only where the dead one was the last,
which a flow run tells by its `run_count`.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from components.errors import PrefectUnavailable, TroupeError
from components.frozen import Frozen
from components.machine.home import ensure_private, is_of_another
from components.machine.process_ids import may_run, this_process
from components.session.trackers import mlflow_tracker

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun, State


def end_flow_run(flow_run_id: str, *, run_count: int, message: str) -> bool:
    """End this start of a flow run, with its child and task runs, where Prefect shows them as unfinished.

    Returns whether Prefect did. Does nothing if the flow run has been started again since, or waits for it. Raises
    PrefectUnavailable.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    try:
        with get_client(sync_client=True) as client:
            try:
                found = client.read_flow_run(flow_run_id)  # type: ignore[arg-type]
            except ObjectNotFound:
                return False
            if found.run_count != run_count or not _may_be_unfinished(found):
                return False
            was_running = found.state is not None and not found.state.is_final()
            ended = _make_end_state(found, message)
            if was_running:
                client.set_flow_run_state(found.id, ended, force=True)
            return end_children(client, flow_run_id, ended) or was_running
    except httpx.HTTPError as error:
        raise PrefectUnavailable(f"Prefect does not answer ({error})") from error


def end_children(client: SyncPrefectClient, flow_run_id: str, ended: State[Any]) -> bool:
    """Set the unfinished child and task runs of a flow run to a state like `ended`. Returns whether there were any.

    The process that starts a flow run again calls it before it makes children of its own.
    """
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import TERMINAL_STATES, StateType

    unfinished = [each for each in StateType if each not in TERMINAL_STATES]
    parents: list[Any] = [flow_run_id]
    children = filters.FlowRunFilter(parent_flow_run_id=filters.FlowRunFilterParentFlowRunId(any_=parents))
    of_state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=unfinished))
    flow_runs = _read_pages(client.read_flow_runs, flow_run_filter=children.model_copy(update={"state": of_state}))
    for flow_run in flow_runs:
        client.set_flow_run_state(flow_run.id, ended.fresh_copy(), force=True)
    # Prefect hears of the end of a task late: one of a completed child is not unfinished.
    not_completed = [each for each in StateType if each is not StateType.COMPLETED]
    of_state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=not_completed))
    at_work = children.model_copy(update={"state": of_state})
    of_tasks = filters.TaskRunFilterState(type=filters.TaskRunFilterStateType(any_=unfinished))
    own = filters.TaskRunFilter(state=of_tasks, flow_run_id=filters.TaskRunFilterFlowRunId(any_=parents))
    task_runs = [
        *_read_pages(client.read_task_runs, task_run_filter=own),
        *_read_pages(
            client.read_task_runs, task_run_filter=filters.TaskRunFilter(state=of_tasks), flow_run_filter=at_work
        ),
    ]
    for task_run in task_runs:
        client.set_task_run_state(task_run.id, ended.fresh_copy(), force=True)
    return bool(flow_runs or task_runs)


def _read_pages(read: Callable[..., list[Any]], **wanted: Any) -> list[Any]:
    """All of them: an answer of the server has 200 at most."""
    found: list[Any] = []
    while page := read(offset=len(found), **wanted):
        found += page
    return found


def _may_be_unfinished(flow_run: FlowRun) -> bool:
    """Whether its process may have left something unfinished; false while it waits for another one, as after a Retry."""
    state = flow_run.state
    if state is None or state.is_completed():
        return False
    return state.is_running() or state.is_cancelling() or state.is_final()


def _make_end_state(flow_run: FlowRun, message: str) -> State[Any]:
    """The state in which a dead process leaves a flow run, or what is unfinished below one that has ended."""
    from prefect.states import Cancelled, Crashed

    state = flow_run.state
    is_cancelled = state is not None and (state.is_cancelling() or state.is_cancelled())
    return Cancelled(message=message) if is_cancelled else Crashed(message=message)


_log = logging.getLogger(__name__)
GRACE_SECONDS = 40.0
"""The time that a run has to end in an orderly way."""


class ActiveRun(Frozen):
    """A flow run and its process. `told_tracking`: the process reported the end to MLflow itself."""

    flow_run_id: str
    run_count: int = 1
    """How often the flow run had been started, this time included."""
    run_id: str
    host: str
    pid: int
    process: str
    """Its ProcessId."""
    api_url: str
    tracking_url: str | None
    experiment: str
    told_tracking: bool = False
    home: Path | None = None
    """Whose record it is; None in records of earlier versions."""

    @property
    def is_alive(self) -> bool:
        """Whether the process runs. One of another host is invisible and counts as alive."""
        return may_run(self.host, self.process)


class RunRecord:
    """The record of this process's run. `is_published` is called at its end: whether MLflow has recorded the end."""

    def __init__(self) -> None:
        self.is_published: Callable[[], bool] = lambda: False


@contextmanager
def record_process(
    home: Path,
    *,
    flow_run_id: str,
    run_count: int,
    run_id: str,
    api_url: str,
    tracking_url: str | None,
    experiment: str,
) -> Iterator[RunRecord]:
    """Record this process as working on the flow run. The record stays for `mark_dead_runs_crashed`."""
    process = this_process()
    run = ActiveRun(
        flow_run_id=flow_run_id,
        run_count=run_count,
        run_id=run_id,
        host=socket.gethostname(),
        pid=process.pid,
        process=str(process),
        api_url=api_url,
        tracking_url=tracking_url,
        experiment=experiment,
        home=home.absolute(),
    )
    _write(home, run)
    record = RunRecord()
    try:
        yield record
    finally:
        _write(home, run.model_copy(update={"told_tracking": record.is_published()}))


def mark_in_bucket(home: Path, run_id: str) -> Path:
    """The file that says that a run is in the bucket of this home's services: it does not begin again while they are down."""
    return home / "runs" / "in-bucket" / run_id


def read_recorded_processes(home: Path) -> list[ActiveRun]:
    """All readable records, including those of ended processes."""
    found = []
    for path in sorted((home / "runs").glob("*.json")):
        with suppress(ValueError, FileNotFoundError):
            found.append(ActiveRun.model_validate_json(path.read_bytes()))
    return [each for each in found if each.home is None or not is_of_another(home, each.home)]


def wait_for_earlier_start(home: Path, flow_run_id: str, *, poll_seconds: float = 2.0) -> None:
    """Wait while an earlier process of this host works on the same flow run.

    A process that could not send its heartbeats, because its machine slept, counts as lost and its flow run is started again.
    What it finishes is then read, not computed a second time beside it.
    """
    own, here, is_told = str(this_process()), socket.gethostname(), False
    while True:
        same = (run for run in read_recorded_processes(home) if run.flow_run_id == flow_run_id and run.host == here)
        at_work = next((run for run in same if run.process not in ("", own) and run.is_alive), None)
        if at_work is None:
            return
        if not is_told:
            _log.warning("process %d still works on this flow run; this one waits for its end", at_work.pid)
            is_told = True
        time.sleep(poll_seconds)


def end_active_runs(home: Path, *, grace_seconds: float = GRACE_SECONDS) -> list[str]:
    """End every training on this host and report to Prefect and MLflow. Returns the runs' names.

    SIGTERM first, so that the run ends its workers and boxes and reports its end; SIGKILL after `grace_seconds`.
    """
    # Without a ProcessId the pid may belong to another process.
    here = [
        run
        for run in read_recorded_processes(home)
        if run.process and run.is_alive and run.host == socket.gethostname()
    ]
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
    mark_dead_runs_crashed(home)
    return sorted({run.run_id for run in here})


def mark_dead_runs_crashed(home: Path) -> list[str]:
    """Report the end of every run whose process has ended but which Prefect or MLflow shows as running.

    Returns the names of these runs. Needs the environment of a client of the running services; if one does not answer, the
    next call reports.
    """
    settled = []
    for run in read_recorded_processes(home):
        if run.is_alive or run.api_url != os.environ.get("PREFECT_API_URL", ""):
            continue
        with suppress(TroupeError):
            message = f"Process {run.pid} of {run.host}, which worked on run {run.run_id}, ended without a word."
            was_running = end_flow_run(run.flow_run_id, run_count=run.run_count, message=message)
            if not run.told_tracking and not _is_worked_on(home, run.run_id):
                was_running = _tell_tracking(run) or was_running
            _path(home, run).unlink(missing_ok=True)
            if was_running:
                settled.append(run.run_id)
    return settled


def _is_worked_on(home: Path, run_id: str) -> bool:
    """Whether a living process of this home works on the run: one MLflow run is for all of them."""
    return any(run.run_id == run_id and run.is_alive for run in read_recorded_processes(home))


def _tell_tracking(run: ActiveRun) -> bool:
    """Mark the run KILLED in MLflow if its status is RUNNING. Returns whether it was."""
    if run.tracking_url is None:
        return False
    tracker = mlflow_tracker(run.tracking_url, run.experiment, register_models=False)
    return tracker.mark_killed(run.run_id, process=run.process)


def _write(home: Path, run: ActiveRun) -> None:
    path = _path(home, run)
    ensure_private(path.parent)
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_text(run.model_dump_json(indent=1), encoding="utf-8")
    partial.replace(path)


def _path(home: Path, run: ActiveRun) -> Path:
    """A record for each start of a flow run; that of the first has the name it has always had."""
    return (
        home / "runs" / (f"{run.flow_run_id}.json" if run.run_count == 1 else f"{run.flow_run_id}-{run.run_count}.json")
    )
