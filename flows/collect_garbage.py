"""Removes what runs do not keep: old checkpoints and unused content of a store, old flow runs and results of Prefect."""

import logging
from typing import Annotated, Any

from prefect import flow, task
from pydantic import Field

from components.config import StoreConfig
from components.machine.home import HOME
from components.runs.gc import DAY_SECONDS
from components.session.garbage import collect
from components.session.stores import open_store
from flows.prefect_runtime.pruning import PrunedFlowRuns, prune_flow_runs, prune_results

HOUR_SECONDS = 3600.0
OF_LOCAL_SERVICES = StoreConfig()
Days = Annotated[float, Field(ge=1)]
_log = logging.getLogger(__name__)


@flow(name="collect-garbage")
def collect_garbage(
    store: StoreConfig = OF_LOCAL_SERVICES,
    keep: Annotated[int | None, Field(ge=1)] = None,
    grace_hours: Annotated[float, Field(ge=1)] = 24.0,
    shared_days: Days = 30.0,
    flow_run_days: Days = 14.0,
    max_flow_runs: Annotated[int, Field(ge=0)] = 2000,
) -> dict[str, Any]:
    """Collect `store` by each run's own retention, then remove finished flow runs of steps and local results that are old.

    `keep` replaces the number of newest checkpoints of every run. What is younger than `grace_hours` stays, so a run at work
    loses nothing that it is about to need. At most `max_flow_runs` are removed in one call, which are about 100 a second.
    Returns what was removed.
    """
    garbage = collect_store(store, keep, grace_hours, shared_days)
    flow_runs = remove_old_flow_runs(flow_run_days, max_flow_runs)
    num_results = remove_old_results(flow_run_days)
    return {"store": garbage, "flow_runs": flow_runs.model_dump(), "num_results": num_results}


@task(persist_result=False)
def collect_store(store: StoreConfig, keep: int | None, grace_hours: float, shared_days: float) -> dict[str, Any]:
    """What was removed from the store; runs with an unreadable record are left alone and named in the log."""
    report, marked = collect(
        open_store(store),
        keep=keep,
        grace_seconds=grace_hours * HOUR_SECONDS,
        shared_seconds=shared_days * DAY_SECONDS,
        dry_run=False,
    )
    for run_id, record in report.damaged.items():
        _log.warning("%s is skipped: %s", run_id, record)
    if marked.num_unmarked:
        _log.warning("MLflow still lists %d removed checkpoints: %s", marked.num_unmarked, marked.error)
    return {**report.document(), "num_marked": marked.num_marked, "num_unmarked": marked.num_unmarked}


@task(persist_result=False)
def remove_old_flow_runs(older_than_days: float, at_most: int) -> PrunedFlowRuns:
    """What was removed from Prefect's database."""
    return prune_flow_runs(older_than_days=older_than_days, at_most=at_most)


@task(persist_result=False)
def remove_old_results(older_than_days: float) -> int:
    """The number of files removed from the local results of Troupe's own Prefect."""
    return prune_results(HOME, older_than_days=older_than_days)
