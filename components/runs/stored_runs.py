"""Runs as they are found in a store."""

from components.artifacts.base import ArtifactStore
from components.errors import ConfigurationError
from components.identity import check_run_id
from components.runs.lineages import list_runs, read_config, read_lineages
from components.runs.run import Run
from components.text.suggestions import did_you_mean

_NUM_NAMED = 8


def read_run(store: ArtifactStore, run_id: str) -> Run:
    """The run with its newest configuration. Raises ConfigurationError if it is unknown, ArtifactCorrupt if it is damaged."""
    config = read_config(store, check_run_id(run_id))
    if config is None:
        raise unknown_run(store, run_id)
    lineages = read_lineages(store, run_id)
    return Run(run_id=run_id, config=lineages[-1].config if lineages else config, lineages=tuple(lineages))


def unknown_run(store: ArtifactStore, run_id: str) -> ConfigurationError:
    """The error for an unknown run, with the nearest name and some that exist."""
    known = list_runs(store)
    nearest = did_you_mean(run_id, known, cutoff=0.6).rstrip()
    there = ", ".join(known[:_NUM_NAMED]) or "none yet"
    if len(known) > _NUM_NAMED:
        there += f", ... ({len(known)} in all)"
    return ConfigurationError(f"run {run_id!r} is not in {store.uri}; runs there: {there}{nearest and f'; {nearest}'}")
