"""Reports to Prefect the end of flow runs whose process has ended without reporting it.

Prefect's Retry makes another process work on the same flow run, so each report is about one start of a flow run, which its
`run_count` tells from the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from components.errors import PrefectUnavailable

if TYPE_CHECKING:  # Prefect's client takes seconds to import, and most commands have no dead run to report
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
    flow_runs = client.read_flow_runs(flow_run_filter=children.model_copy(update={"state": of_state}))
    for flow_run in flow_runs:
        client.set_flow_run_state(flow_run.id, ended.fresh_copy(), force=True)
    # Prefect hears of the end of a task late: one of a completed child is not unfinished.
    not_completed = [each for each in StateType if each is not StateType.COMPLETED]
    of_state = filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=not_completed))
    at_work = children.model_copy(update={"state": of_state})
    of_tasks = filters.TaskRunFilterState(type=filters.TaskRunFilterStateType(any_=unfinished))
    own = filters.TaskRunFilter(state=of_tasks, flow_run_id=filters.TaskRunFilterFlowRunId(any_=parents))
    task_runs = [
        *client.read_task_runs(task_run_filter=own),
        *client.read_task_runs(task_run_filter=filters.TaskRunFilter(state=of_tasks), flow_run_filter=at_work),
    ]
    for task_run in task_runs:
        client.set_task_run_state(task_run.id, ended.fresh_copy(), force=True)
    return bool(flow_runs or task_runs)


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
