"""What is old in Prefect: finished flow runs with their task runs, logs and pages, through its own API, and local results."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from components.frozen import Frozen

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

PRUNED_FLOWS = ("training-iteration", "collect-garbage")
"""One flow run for each step, and for each night. A training's own flow run stays: it is the page of the run."""
_PAGE = 100


class PrunedFlowRuns(Frozen):
    """What was removed from Prefect, and what stays although it is old."""

    num_flow_runs: int = 0
    num_pages: int = 0
    """Artifacts of these flow runs."""
    num_at_work: int = 0
    """Old ones whose training is not finished: its Retry finds them by their place in it."""


def prune_flow_runs(*, older_than_days: float, at_most: int, flows: Sequence[str] = PRUNED_FLOWS) -> PrunedFlowRuns:
    """Remove at most so many finished flow runs, the oldest first, that ended before. Raises what Prefect's client raises."""
    from prefect.client.orchestration import get_client

    pruned = PrunedFlowRuns()
    with get_client(sync_client=True) as client:
        while left := at_most - pruned.num_flow_runs:
            found = _list_finished(
                client, flows, datetime.now(UTC) - timedelta(days=older_than_days), pruned.num_at_work
            )
            at_work = _at_work(client, found)
            old = [each for each in found if each.id not in at_work][:left]
            num_pages = sum(_remove(client, each) for each in old)
            pruned = PrunedFlowRuns(
                num_flow_runs=pruned.num_flow_runs + len(old),
                num_pages=pruned.num_pages + num_pages,
                num_at_work=pruned.num_at_work + len(at_work),
            )
            if len(found) < _PAGE:
                break
    return pruned


def prune_results(home: Path, *, older_than_days: float) -> int:
    """The number of old result files removed from Prefect's local storage, which is left alone outside `home`.

    Our own stages leave no results there: their store has them.
    """
    from prefect.settings import get_current_settings

    folder = get_current_settings().results.local_storage_path
    if folder is None or not folder.resolve().is_relative_to(home.resolve()):
        return 0
    before = time.time() - older_than_days * 86400
    old = [path for path in folder.rglob("*") if path.is_file() and path.stat().st_mtime < before]
    for path in old:
        path.unlink(missing_ok=True)
    return len(old)


def _list_finished(client: SyncPrefectClient, flows: Sequence[str], before: datetime, offset: int) -> list[FlowRun]:
    from prefect.client.schemas import filters
    from prefect.client.schemas.objects import TERMINAL_STATES
    from prefect.client.schemas.sorting import FlowRunSort

    return client.read_flow_runs(
        flow_filter=filters.FlowFilter(name=filters.FlowFilterName(any_=list(flows))),
        flow_run_filter=filters.FlowRunFilter(
            state=filters.FlowRunFilterState(type=filters.FlowRunFilterStateType(any_=sorted(TERMINAL_STATES))),
            end_time=filters.FlowRunFilterEndTime(before_=before),
        ),
        sort=FlowRunSort.START_TIME_ASC,
        limit=_PAGE,
        offset=offset,
    )


def _at_work(client: SyncPrefectClient, flow_runs: Iterable[FlowRun]) -> set[object]:
    """The ids of those whose parent is not finished."""
    from prefect.client.schemas import filters

    by_task = {each.parent_task_run_id: each.id for each in flow_runs if each.parent_task_run_id is not None}
    if not by_task:
        return set()
    task_filter = filters.TaskRunFilter(id=filters.TaskRunFilterId(any_=list(by_task)))
    parents = {each.id: each.flow_run_id for each in client.read_task_runs(task_run_filter=task_filter, limit=_PAGE)}
    named = filters.FlowRunFilterId(any_=[parent for parent in set(parents.values()) if parent is not None])
    found = client.read_flow_runs(flow_run_filter=filters.FlowRunFilter(id=named), limit=_PAGE)
    unfinished = {each.id for each in found if each.state is None or not each.state.is_final()}
    return {by_task[task] for task, parent in parents.items() if parent in unfinished}


def _remove(client: SyncPrefectClient, flow_run: FlowRun) -> int:
    """Remove a flow run, the task run that stands for it in its parent, and its pages; the number of pages.

    Prefect removes its task runs and logs with it. What somebody else removed meanwhile is no error.
    """
    from prefect.client.schemas import filters
    from prefect.exceptions import ObjectNotFound

    of_run = filters.ArtifactFilter(flow_run_id=filters.ArtifactFilterFlowRunId(any_=[flow_run.id]))
    pages = client.read_artifacts(artifact_filter=of_run)
    for page in pages:
        with suppress(ObjectNotFound):
            client.delete_artifact(page.id)
    with suppress(ObjectNotFound):
        client.delete_flow_run(flow_run.id)
    if flow_run.parent_task_run_id is not None:
        with suppress(ObjectNotFound):
            client.delete_task_run(flow_run.parent_task_run_id)
    return len(pages)
