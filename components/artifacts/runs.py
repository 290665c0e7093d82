"""The records of a run: its frozen configuration, when it began, and its deliberate restarts."""

from collections.abc import Sequence
from datetime import datetime

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as, sealed, unsealed
from components.artifacts.refs import Frozen
from components.artifacts.stage import Clock, utc_now
from components.config import RunConfig, differing_fields
from components.errors import ConfigDrift, ConfigurationError
from components.identity import STAGES, checked_run_id, config_key

_INDEX = "index/runs/"
"""One small record a run, so that naming all runs does not list all their steps."""


class Lineage(Frozen):
    """A deliberate restart: from this stage of this step on, the run goes on under `config` and in new keys."""

    lineage: int
    from_step: int
    from_stage: str
    started_at: datetime
    config: RunConfig


def freeze_config(store: ArtifactStore, run_id: str, config: RunConfig, *, clock: Clock = utc_now) -> RunConfig:
    """`config` itself, once it is certain that the run's result is decided by it.

    The first call writes `runs/<run_id>/config.json`. Later calls compare: fields outside `result_fields()` (how many
    steps, where things are kept and shown) may differ, any other difference from the run's newest configuration raises
    ConfigDrift, which names the fields.
    """
    checked_run_id(run_id)
    if read_config(store, run_id) is None:
        # The index comes first: a crash between the two leaves an entry that list_runs passes over, not a hidden run.
        store.create(f"{_INDEX}{run_id}.json", sealed({"started_at": clock().isoformat()}))
        if store.create(config_key(run_id), sealed(config.model_dump(mode="json"), indent=1)):
            return config
    lineages = read_lineages(store, run_id)
    frozen = lineages[-1].config if lineages else read_config(store, run_id)
    assert frozen is not None, f"{config_key(run_id)} was refused and cannot be read"
    changes = differing_fields(frozen.result_fields(), config.result_fields())
    if changes:
        raise ConfigDrift(
            f"run {run_id!r} exists with another configuration; {'; '.join(changes)}. "
            "Choose another run_id, or restart this one with --from-stage"
        )
    return config


def read_config(store: ArtifactStore, run_id: str) -> RunConfig | None:
    """The configuration with which the run first started, or None when there is no such run."""
    content = store.read(config_key(run_id))
    return None if content is None else read_as(config_key(run_id), content, RunConfig)


def start_lineage(
    store: ArtifactStore, run_id: str, *, from_step: int, from_stage: str, config: RunConfig, clock: Clock = utc_now
) -> int:
    """The number (1, 2, …) of a new restart of the run. Earlier outputs stay where they are and stay readable."""
    if from_stage not in STAGES:
        raise ConfigurationError(f"stage {from_stage!r} is not known; stages are {', '.join(STAGES)}")
    if from_step < 0:
        raise ConfigurationError(f"step {from_step}: steps count from 0")
    if read_config(store, run_id) is None:
        raise ConfigurationError(f"run {run_id!r} is not in {store.uri}; start it before restarting it")
    number = len(read_lineages(store, run_id)) + 1
    while not store.create(
        config_key(run_id, number),
        sealed(
            Lineage(
                lineage=number, from_step=from_step, from_stage=from_stage, started_at=clock(), config=config
            ).model_dump(mode="json"),
            indent=1,
        ),
    ):
        number += 1
    return number


def read_lineages(store: ArtifactStore, run_id: str) -> tuple[Lineage, ...]:
    """The run's restarts in order; empty for a run that was never restarted."""
    lineages = []
    for key in store.list(f"runs/{run_id}/lineages/"):
        content = store.read(key)
        assert content is not None, f"{key} is listed and cannot be read"
        lineages.append(read_as(key, content, Lineage))
    return tuple(lineages)


def lineage_for(lineages: Sequence[Lineage], step: int, stage: str) -> int:
    """The highest lineage that had begun by this stage of this step; 0 is the run as first started.

    **Example** with restarts 1 from (7, compute_rewards) and 2 from (3, update_policy): (2, update_policy) is of lineage
    0, (3, update_policy) and all later ones are of lineage 2.
    """
    begun = [
        lineage.lineage
        for lineage in lineages
        if (lineage.from_step, STAGES.index(lineage.from_stage)) <= (step, STAGES.index(stage))
    ]
    return max(begun, default=0)


def list_runs(store: ArtifactStore) -> list[str]:
    """The ids of all runs in lexical order."""
    return [run_id for run_id in indexed_runs(store) if store.read(config_key(run_id)) is not None]


def indexed_runs(store: ArtifactStore) -> list[str]:
    """The ids of all runs in lexical order, in one listing; a start that was cut short may have left an id and no run."""
    return sorted(key.removeprefix(_INDEX).removesuffix(".json") for key in store.list(_INDEX))


def run_started_at(store: ArtifactStore, run_id: str) -> datetime | None:
    """When the run first started, or None when there is no such run."""
    content = store.read(f"{_INDEX}{run_id}.json")
    return (
        None if content is None else datetime.fromisoformat(unsealed(f"{_INDEX}{run_id}.json", content)["started_at"])
    )
