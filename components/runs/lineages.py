"""The records of a run: its frozen configuration, its start time, and its restarts, which can be dropped."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as, with_digest
from components.config import RunConfig, StoreConfig, differing_fields
from components.config.older import StoredConfig, upgrade_values
from components.config.parsing import find_changed_sources
from components.errors import ConfigDrift, ConfigurationError
from components.frozen import Frozen
from components.identity import check_run_id, config_key
from components.machine.process_variables import read_variable
from components.runs.pipeline import Pipeline
from components.runs.stage_protocol import Clock, utc_now
from components.stage_roles import Roles

_INDEX = "index/runs/"
"""The prefix of one small record per run, so that listing runs does not list all their steps."""


class Lineage(Frozen):
    """A restart: from this stage of this step on, the run continues under `config` and with new keys."""

    lineage: int
    from_step: int
    from_stage: str
    repeats: tuple[str, ...]
    """The stages of `from_step` that are computed again, from `from_stage` on."""
    started_at: datetime
    config: StoredConfig
    stage_versions: Mapping[str, int] = {}
    """The versions that compute this lineage."""
    requested_by: str | None = None
    """The flow run whose parameters ask for it; a Retry of that flow run asks for no other."""
    roles: Roles = Roles()
    """Those of the pipeline that computes this lineage."""

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for restarts of which one is enough."""
        config = self.config.result_fields() | {"evaluation": self.config.evaluation.model_dump(mode="json")}
        return self.from_step, self.from_stage, config, dict(self.stage_versions)


def freeze_config(
    store: ArtifactStore, run_id: str, config: RunConfig, pipeline: Pipeline, *, clock: Clock = utc_now
) -> RunConfig:
    """Store `config` as that of the run, or compare it with the stored one, and return it.

    The first call writes `runs/<run_id>/config.json`. In later calls, fields outside `result_fields()` (number of steps, store,
    tracking) may differ; any other difference from the run's newest configuration raises ConfigDrift, which names the fields.
    """
    check_run_id(run_id)
    # The index comes first: a crash between the two leaves an entry that list_runs skips, not a hidden run.
    store.create(index_key(run_id), with_digest({"started_at": clock().isoformat()}))
    if read_config(store, run_id) is None and store.create(
        config_key(run_id), with_digest(config.model_dump(mode="json"), indent=1)
    ):
        return config
    assert read_config(store, run_id) is not None, f"{config_key(run_id)} was refused and cannot be read"
    check_drift(store, run_id, config, pipeline)
    return config


def check_drift(store: ArtifactStore, run_id: str, config: RunConfig, pipeline: Pipeline) -> None:
    """Raise ConfigDrift if the run exists and `config` would give other results."""
    frozen = read_recorded_config(store, run_id)
    if frozen is None:
        return
    if changes := differing_fields(frozen.result_fields(), config.result_fields()):
        option = store_option(store)
        if own := find_changed_sources(config, changes):
            first = min(map(pipeline.first_reader, own.values()), key=pipeline.restartable.index)
            raise ConfigDrift(
                f"run {run_id!r} was started with other files of {', '.join(own)} ({'; '.join(changes)}). Restore the "
                f"files; use the new ones from a step on: `troupe resume {run_id}{option} --from-stage {first} --step N`; "
                f"start another run: --run-id OTHER; or remove this one first: `troupe rm {run_id}{option}`"
            )
        raise ConfigDrift(
            f"run {run_id!r} exists with another configuration; {'; '.join(changes)}. Continue it as it is: "
            f"`troupe resume {run_id}{option}`; start another run: --run-id OTHER; or remove it first: "
            f"`troupe rm {run_id}{option}`"
        )


def store_option(store: ArtifactStore) -> str:
    """The command-line option that opens `store`: " --store URI", or "" for the bucket of the local services.

    Without it a command opens what is local: a bucket of the same name on another server is named.
    """
    endpoint = getattr(store, "endpoint_url", None)  # of a store in S3
    found = endpoint and endpoint in (read_variable("AWS_ENDPOINT_URL_S3"), read_variable("AWS_ENDPOINT_URL"))
    return "" if found and store.uri == f"s3://{StoreConfig().bucket}" else f" --store {store.uri}"


def view_command(store: ArtifactStore, run_id: str, *, step: int | None = None, problem: str | None = None) -> str:
    """The command that shows what was said in a run. **Example** "troupe view r --step 3 --problem plan_path-f73c9ba90248"."""
    options = [f" --step {step}" if step is not None else "", f" --problem {problem}" if problem is not None else ""]
    return f"troupe view {run_id}{store_option(store)}{''.join(options)}"


def read_config(store: ArtifactStore, run_id: str) -> RunConfig | None:
    """The configuration of the run's first start, or None if there is no such run."""
    content = store.read(config_key(run_id))
    return None if content is None else read_as(config_key(run_id), content, RunConfig, upgrade_values)


def read_recorded_config(store: ArtifactStore, run_id: str) -> RunConfig | None:
    """The run's newest configuration, or None if there is no such run."""
    lineages = read_lineages(store, run_id)
    return lineages[-1].config if lineages else read_config(store, run_id)


def start_lineage(
    store: ArtifactStore,
    run_id: str,
    *,
    from_step: int,
    from_stage: str,
    repeats: Sequence[str],
    config: RunConfig,
    stage_versions: Mapping[str, int] | None = None,
    requested_by: str | None = None,
    roles: Roles | None = None,
    clock: Clock = utc_now,
) -> int:
    """Record a restart of the run and return its number (1, 2, …). Earlier outputs stay readable.

    If it equals the newest restart, returns that one's number. Numbers are never reused, not even those of dropped restarts.
    """
    if from_step < 0:
        raise ConfigurationError(f"step {from_step}: steps count from 0")
    if read_config(store, run_id) is None:
        raise ConfigurationError(f"run {run_id!r} is not in {store.uri}; start it before restarting it")
    wanted = Lineage(
        lineage=1,
        from_step=from_step,
        from_stage=from_stage,
        repeats=tuple(repeats),
        started_at=clock(),
        config=config,
        stage_versions=stage_versions or {},
        requested_by=requested_by,
        roles=roles or Roles(),
    )
    while True:
        lineages = read_lineages(store, run_id)
        if lineages and lineages[-1].identity == wanted.identity:
            return lineages[-1].lineage
        if store.create(config_key(run_id, wanted.lineage), with_digest(wanted.model_dump(mode="json"), indent=1)):
            return wanted.lineage
        wanted = wanted.model_copy(update={"lineage": wanted.lineage + 1})


def drop_lineage(store: ArtifactStore, run_id: str, number: int) -> None:
    """Undo the run's newest restart. Harmless if it is dropped already.

    Raises ConfigurationError for an unknown number, and for a restart that is followed by another.
    """
    standing = [lineage.lineage for lineage in read_lineages(store, run_id)]
    if standing and standing[-1] == number:
        store.create(_name_dropped_key(run_id, number), with_digest({"lineage": number}))
    elif number in standing:
        raise ConfigurationError(f"--lineage {number}: restart {standing[-1]} began after it; drop that one first")
    elif store.read(_name_dropped_key(run_id, number)) is None:
        known = ", ".join(map(str, standing)) or "none"
        raise ConfigurationError(f"--lineage {number}: run {run_id!r} has no such restart; it has {known}")


def read_lineages(store: ArtifactStore, run_id: str) -> tuple[Lineage, ...]:
    """The run's restarts in order, without dropped ones."""
    keys = list(store.list(f"runs/{run_id}/lineages/"))
    dropped = set(store.list(f"runs/{run_id}/dropped/")) if keys else set()
    lineages = []
    for key in keys:
        if key.replace("/lineages/", "/dropped/") not in dropped:
            content = store.read(key)
            assert content is not None, f"{key} is listed and cannot be read"
            lineages.append(read_as(key, content, Lineage))
    return tuple(lineages)


def lineage_for(lineages: Sequence[Lineage], step: int, stage: str) -> int:
    """The newest lineage that had begun by this stage of this step; 0 is the first start.

    **Example** with restarts 1 from (7, compute_rewards) and 2 from (3, update_policy): (2, update_policy) is of lineage
    0, (3, update_policy) and all later ones are of lineage 2.
    """

    def covers(lineage: Lineage) -> bool:
        return lineage.from_step < step or (lineage.from_step == step and stage in lineage.repeats)

    return max((each.lineage for each in lineages if covers(each)), default=0)


def lineage_at_end(lineages: Sequence[Lineage], step: int) -> int:
    """The newest lineage that has, or will have, ended this step.

    **Example** after a restart at the evaluations of step 3, step 3 itself ended in lineage 0, and step 4 in lineage 1.
    """

    def covers(lineage: Lineage) -> bool:
        repeats_end = any(lineage.roles[stage].ends_step for stage in lineage.repeats)
        return lineage.from_step < step or (lineage.from_step == step and repeats_end)

    return max((each.lineage for each in lineages if covers(each)), default=0)


def has_leftovers(store: ArtifactStore, run_id: str) -> bool:
    """Whether an interrupted removal left records of a removed run.

    An attempt to start a run leaves records of its session; all other records come after its configuration.
    """
    if store.read(config_key(run_id)) is not None:
        return False
    sessions = f"runs/{run_id}/sessions/"
    has_records = any(not key.startswith(sessions) for key in store.list(f"runs/{run_id}/"))
    # Another process may have started the run meanwhile.
    return has_records and store.read(config_key(run_id)) is None


def list_runs(store: ArtifactStore) -> list[str]:
    """The ids of all runs in lexical order."""
    return [run_id for run_id in list_indexed_runs(store) if store.read(config_key(run_id)) is not None]


def list_indexed_runs(store: ArtifactStore) -> list[str]:
    """The ids of all runs in lexical order, from one listing; an interrupted start may have left an id without a run."""
    return sorted(key.removeprefix(_INDEX).removesuffix(".json") for key in store.list(_INDEX))


def index_key(run_id: str) -> str:
    """The key of the record by which the run is listed."""
    return f"{_INDEX}{run_id}.json"


def _name_dropped_key(run_id: str, lineage: int) -> str:
    return f"runs/{run_id}/dropped/{lineage:06d}.json"
