"""`troupe rm`: plans and carries out the removal of a run or of its newest restart."""

from pathlib import Path
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.records import read_as
from components.config import TrackingConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.machine.home import HOME
from components.methods.hybrid.decision_histories import remove_history
from components.runs.lineages import drop_lineage, read_config, read_lineages, store_option
from components.runs.removal import Removal, RemovalReport, removal_of_lineage, removal_of_run, remove
from components.runs.session_records import SessionStart
from components.runs.stored_runs import unknown_run
from components.session.trackers import tracker_of
from flows.prefect_runtime.active_runs import mark_in_bucket


def plan_removal(store: ArtifactStore, run_id: str, *, lineage: int | None, from_mlflow: bool, force: bool) -> Removal:
    """What `troupe rm` would remove. Raises ConfigurationError for an unknown run, or unless `force` for a live one."""
    removal = removal_of_run(store, run_id) if lineage is None else removal_of_lineage(store, run_id, lineage)
    if lineage is None and not removal.records and not from_mlflow:
        raise unknown_run(store, run_id)
    if lineage is not None and not removal.records:
        _check_restart(store, run_id, lineage)
    if not force:
        _check_idle(store, run_id, removal)
    return removal


def carry_out_removal(
    store: ArtifactStore, removal: Removal, *, lineage: int | None, from_mlflow: bool, home: Path = HOME
) -> dict[str, Any]:
    """Carry out a removal; what was removed and what remains, as plain JSON. `home` is where decision histories are."""
    run_id = removal.run_id
    tracking = _tracking(store, run_id)
    gone_from_mlflow = tracker_of(tracking).remove_run(run_id) if from_mlflow else []
    if lineage is not None:
        drop_lineage(store, run_id, lineage)
    others = any(not key.startswith(f"runs/{run_id}/") for key in _live(store, removal))
    report = remove(store, removal, spare_young=others)
    history = remove_history(run_id, home) if lineage is None else None
    if lineage is None and not store_option(store):
        mark_in_bucket(home, run_id).unlink(missing_ok=True)
    return {
        "run_id": run_id,
        "lineage": lineage,
        **report.model_dump(mode="json"),
        "removed_history": None if history is None else str(history),
        "removed_from_mlflow": gone_from_mlflow,
        "is_shown_by_mlflow": lineage is None and not from_mlflow and tracking.kind == "mlflow",
    }


def describe_removal(document: dict[str, Any], *, what: str, option: str) -> str:
    """The document as text; `option` opens the store."""
    report = RemovalReport.model_validate({name: document[name] for name in RemovalReport.model_fields})
    lines = [
        f"removed {what}: {report.num_records} records and {report.num_objects} payloads and files, "
        f"{report.num_bytes / 2**20:.1f} MiB"
    ]
    kept = {
        "stay: other records refer to them, too": report.num_shared_objects,
        f"of the last hour stay while other runs are at work; `troupe gc{option}` removes them later": report.num_young_objects,
        f"stay: records of other runs cannot be read and may refer to them; `troupe runs{option}` names these, and `troupe "
        f"gc{option}` removes the rest once they are repaired or removed": report.num_unsure_objects,
    }
    lines += [f"{count} payloads and files {reason}" for reason, count in kept.items() if count]
    if document["removed_history"]:
        lines.append(f"removed the decision history: {document['removed_history']}")
    if document["removed_from_mlflow"]:
        lines.append(f"removed from MLflow: {', '.join(document['removed_from_mlflow'])}")
    if document["is_shown_by_mlflow"]:
        lines.append(f"MLflow still shows it: `troupe rm {document['run_id']} --mlflow{option}` removes it there")
    return "\n".join(lines)


def _tracking(store: ArtifactStore, run_id: str) -> TrackingConfig:
    """The run's tracking configuration; the default if its configuration is missing or unreadable."""
    try:
        config = read_config(store, run_id)
    except ArtifactCorrupt:
        config = None
    return TrackingConfig() if config is None else config.tracking


def _check_restart(store: ArtifactStore, run_id: str, lineage: int) -> None:
    """Raise ConfigurationError, with those that there are, unless the run has this restart."""
    standing = [each.lineage for each in read_lineages(store, run_id)]
    if lineage not in standing:
        known = ", ".join(map(str, standing)) or "none"
        raise ConfigurationError(
            f"--lineage {lineage}: run {run_id!r} has no such restart, or it was removed before; it has {known}"
        )


def _check_idle(store: ArtifactStore, run_id: str, removal: Removal) -> None:
    for key, session in _live(store, removal).items():
        if key.startswith(f"runs/{run_id}/"):
            raise ConfigurationError(
                f"run {run_id!r} is being worked on by process {session.pid} of {session.host} since "
                f"{session.started_at}; end that first, or add --force if it is gone"
            )


def _live(store: ArtifactStore, removal: Removal) -> dict[str, SessionStart]:
    """The live sessions of the store, by record key."""
    found: dict[str, SessionStart] = {}
    for key in removal.open_sessions:
        if (content := store.read(key)) is None:
            continue
        try:
            session = read_as(key, content, SessionStart)
        except ArtifactCorrupt:
            continue  # an unreadable record blocks no removal
        if session.is_alive:
            found[key] = session
    return found
