"""`troupe export`: writes the policies of a run as folders that other programs load."""

from collections.abc import Mapping

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.errors import ConfigurationError
from components.exporting.placing import check_place, fill_at_once
from components.frozen import Frozen
from components.runs.available_checkpoints import available_steps, checkpoints_after, format_ranges, is_available
from components.runs.history import Progress
from components.runs.recovery_hints import with_recovery_hints
from components.runs.run import Run
from components.runs.steps import first_unfinished_step
from components.session.stores import open_store
from components.text.suggestions import did_you_mean
from troupe.exporting.folders import ExportedPolicy, FolderWriter
from troupe.teams.run_team import find_named_step, find_run

_PLACE = "DIR"


class ExportReport(Frozen):
    """The written folders. `left_out` is the reason by policy without a folder, `warnings` what the cards lack."""

    run_id: str
    step: int
    store: str
    folder: str
    policies: tuple[ExportedPolicy, ...]
    left_out: Mapping[str, str]
    warnings: tuple[str, ...]


def export(
    checkpoint: str, folder: str, *, policy: str | None, is_merged: bool, store_uri: str | None, progress: Progress
) -> ExportReport:
    """Write all of a run's policies, or one, to `folder`, or nothing. Raises ConfigurationError before anything is written."""
    run_id, wanted = find_named_step(checkpoint, argument="RUN@STEP")
    place = check_place(folder, argument=_PLACE)
    run = find_run(run_id, store_uri)
    store = open_store(run.config.store)
    left_out = _left_out(run.config)
    step, checkpoints = _find_checkpoints(store, run, wanted, _choose_policies(run, policy, left_out))
    with with_recovery_hints(store, run.run_id), fill_at_once(place, argument=_PLACE) as work:
        writer = FolderWriter(store, run, step, place=place, work=work, is_merged=is_merged)
        exported: list[ExportedPolicy] = []
        for name, found in checkpoints.items():
            progress(len(exported), len(checkpoints))
            exported.append(writer.write(name, found))
    return ExportReport(
        run_id=run_id,
        step=step,
        store=store.uri,
        folder=str(place),
        policies=tuple(exported),
        left_out=left_out if policy is None else {},
        warnings=tuple(writer.warnings),
    )


def _choose_policies(run: Run, policy: str | None, left_out: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the exported policies, sorted."""
    known = run.config.policies
    if not run.config.method.writes_answers:
        raise ConfigurationError(
            f"run {run.run_id}: it trained a player of buttons, no language model, so that there is no model folder to export"
        )
    if policy is not None and policy not in known:
        raise ConfigurationError(
            f"--policy {policy!r}: run {run.run_id} has none of this name; {did_you_mean(policy, known)}"
            f"policies: {', '.join(sorted(known))}"
        )
    if policy is not None and policy in left_out:
        raise ConfigurationError(f"--policy {policy!r}: {left_out[policy]}")
    if policy is None and len(left_out) == len(known):
        raise ConfigurationError(f"run {run.run_id}: there is nothing to export; {next(iter(left_out.values()))}")
    return tuple(sorted(set(known) - set(left_out))) if policy is None else (policy,)


def _left_out(config: RunConfig) -> dict[str, str]:
    """Policy -> reason, for those without weights because an API plays them."""
    return {
        name: f"it is played by {settings.api.provider}'s {settings.api.model}, which has no weights here"
        for name, settings in sorted(config.policies.items())
        if settings.api is not None
    }


def _find_checkpoints(
    store: ArtifactStore, run: Run, wanted: int | None, policies: tuple[str, ...]
) -> tuple[int, dict[str, CheckpointRef]]:
    """The wanted step (None: the newest), and the checkpoints of `policies` at it, whose files are all in the store."""
    num_finished = first_unfinished_step(store, run)
    step = num_finished if wanted is None else wanted
    found = checkpoints_after(store, run, step) if step <= num_finished else None
    if found is not None and all(is_available(store, found[policy]) for policy in policies):
        return step, {policy: found[policy] for policy in policies}
    if step > num_finished:
        reason = f"it has finished {num_finished} updates"
    elif found is None:
        reason = "it has not begun, or another version of Troupe began it"
    else:
        reason = "`troupe gc` removed that checkpoint"
    kept = format_ranges(available_steps(store, run))
    there = f"use a step that has one: {kept}" if kept else "none of its steps has one"
    raise ConfigurationError(f"step {step} of run {run.run_id}: {reason}; {there}")
