"""Garbage collection of a store, and the marks of removed checkpoints in MLflow."""

from functools import partial

from components.artifacts.base import ArtifactStore
from components.config import RunConfig
from components.errors import ArtifactCorrupt, TrackingUnavailable
from components.runs.gc import GarbageReport, collect_garbage
from components.runs.lineages import list_indexed_runs, read_config
from components.session.trackers import tracker_of
from components.tracking.base import Tracker
from components.tracking.deleted_checkpoints import MarkedFiles, folders_there, mark_removed


def collect(
    store: ArtifactStore, *, keep: int | None, grace_seconds: float, shared_seconds: float, dry_run: bool
) -> tuple[GarbageReport, MarkedFiles]:
    """What was removed, or would be, and how many of the removed checkpoints were marked in MLflow.

    `keep` replaces the number of newest checkpoints of every run's own retention.
    """
    report = collect_garbage(
        store, keep_checkpoints=keep, grace_seconds=grace_seconds, shared_seconds=shared_seconds, dry_run=dry_run
    )
    return report, MarkedFiles() if dry_run else _mark_in_mlflow(store)


def _mark_in_mlflow(store: ArtifactStore) -> MarkedFiles:
    """Mark the model versions without files. If MLflow is down, the next call marks them."""
    folders, total = folders_there(store), MarkedFiles()
    for run_id in list_indexed_runs(store):
        try:
            config = read_config(store, run_id)
        except ArtifactCorrupt:
            continue  # a damaged run is skipped
        if config is None or config.tracking.kind == "none" or not config.tracking.register_models:
            continue
        found = mark_removed(store, run_id, partial(_tracker, config, total.error), folders)
        total = MarkedFiles(
            num_marked=total.num_marked + found.num_marked,
            num_unmarked=total.num_unmarked + found.num_unmarked,
            error=total.error or found.error,
        )
    return total


def _tracker(config: RunConfig, failure: str | None) -> Tracker:
    """The run's tracker. After a failure raises it again: the wait for an unreachable server is not repeated."""
    if failure is not None:
        raise TrackingUnavailable(failure)
    return tracker_of(config.tracking)
