"""The runs of a store that somebody works on."""

import logging
from collections.abc import Iterator
from datetime import date, datetime, timedelta

from components.artifacts.base import ArtifactStore
from components.errors import ArtifactCorrupt
from components.runs.initial_checkpoints import read_initial_checkpoints
from components.runs.lineages import list_runs
from components.runs.run import Run
from components.runs.session_records import effective_run, readable_sessions, run_state
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run

_log = logging.getLogger(__name__)


def active_runs(store: ArtifactStore, tonight: date, active_days: int) -> Iterator[Run]:
    """The runs whose last session began at most `active_days` days before `tonight`. One with a damaged record is left out with
    a warning."""
    oldest = tonight - timedelta(days=active_days)
    for run_id in list_runs(store):
        try:
            sessions = readable_sessions(store, run_id)
            if sessions and datetime.fromisoformat(sessions[-1].started_at).date() >= oldest:
                yield effective_run(store, read_run(store, run_id))
        except ArtifactCorrupt as error:  # one run's error
            _log.warning("%s is left out: %s", run_id, error)


def read_newest_step(store: ArtifactStore, run: Run) -> int | None:
    """The number of finished updates of a run that has something to play.

    None for a run that has no policies yet, and for one that ended before its first update without completing: its policies are
    those that every run of its configuration begins with.
    """
    if finished := first_unfinished_step(store, run):
        return finished
    try:
        state = run_state(store, run, 0).name
    except ArtifactCorrupt as error:
        _log.warning("%s does not play: %s", run.run_id, error)
        return None
    has_policies = state in ("running", "completed") and read_initial_checkpoints(store, run) is not None
    return 0 if has_policies else None
