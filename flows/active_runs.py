"""The runs of a store that somebody works on."""

from collections.abc import Iterator
from datetime import date, datetime, timedelta

from components.artifacts.base import ArtifactStore
from components.runs.lineages import list_runs
from components.runs.run import Run
from components.runs.session_records import effective_run, readable_sessions
from components.runs.stored_runs import read_run


def active_runs(store: ArtifactStore, tonight: date, active_days: int) -> Iterator[Run]:
    """The runs whose last session began at most `active_days` days before `tonight`."""
    oldest = tonight - timedelta(days=active_days)
    for run_id in list_runs(store):
        run = effective_run(store, read_run(store, run_id))
        sessions = readable_sessions(store, run_id)
        if sessions and datetime.fromisoformat(sessions[-1].started_at).date() >= oldest:
            yield run
