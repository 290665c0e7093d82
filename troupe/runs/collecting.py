"""`troupe gc`: what goes from a store, and that those who offer it are told."""

from functools import partial

from components.artifacts.base import ArtifactStore
from components.artifacts.gc import GarbageReport, collect_garbage
from components.artifacts.runs import indexed_runs, read_config
from components.config import RunConfig
from components.errors import ArtifactCorrupt, TrackingUnavailable
from components.tracking.base import Tracker
from components.tracking.removed import MarkedFiles, folders_there, mark_removed
from tasks.trackers import tracker_of


def collect(
    store: ArtifactStore, *, keep: int, grace_seconds: float, dry_run: bool
) -> tuple[GarbageReport, MarkedFiles]:
    """What went, or would go, and how many of the removed checkpoints MLflow was told of."""
    report = collect_garbage(store, keep_checkpoints=keep, grace_seconds=grace_seconds, dry_run=dry_run)
    return report, MarkedFiles() if dry_run else tell_tracker(store)


def tell_tracker(store: ArtifactStore) -> MarkedFiles:
    """Mark in MLflow what cannot be loaded any more. Nothing is lost when it is away: the next call finds the same."""
    folders, total = folders_there(store), MarkedFiles()
    for run_id in indexed_runs(store):
        try:
            config = read_config(store, run_id)
        except ArtifactCorrupt:
            continue  # the run is left alone
        if config is None or config.tracking.kind != "mlflow" or not config.tracking.register_models:
            continue
        found = mark_removed(store, run_id, partial(_tracker, config, total.error), folders)
        total = MarkedFiles(
            num_marked=total.num_marked + found.num_marked,
            num_unmarked=total.num_unmarked + found.num_unmarked,
            error=total.error or found.error,
        )
    return total


def _tracker(config: RunConfig, failure: str | None) -> Tracker:
    """The run's tracker, unless one has just failed: a server that is away is waited for once."""
    if failure is not None:
        raise TrackingUnavailable(failure)
    return tracker_of(config.tracking)
