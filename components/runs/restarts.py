"""Restarts of a run at a stage of a step. The inputs of that stage must be complete."""

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import FOLDER_KIND
from components.artifacts.refs import references_in
from components.config import differing_fields
from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError
from components.frozen import Frozen
from components.runs.available_checkpoints import checkpoints_after, has_folder, is_available
from components.runs.lineages import start_lineage, store_option
from components.runs.pipeline import Pipeline, Stage
from components.runs.run import Run
from components.runs.step_records import manifest_keys, read_manifest_at, read_step_record, stage_of
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run


class Restart(Frozen):
    """The stage of a step at which a run shall restart."""

    step: int
    stage: str
    requested_by: str | None = None
    """The flow run whose parameters ask for it."""


def record_restart(store: ArtifactStore, run: Run, restart: Restart, pipeline: Pipeline) -> int:
    """Record a restart under `run.config` and return its number. Raises ConfigurationError if it is not possible."""
    check_restart(store, run, restart, pipeline)
    return start_lineage(
        store,
        run.run_id,
        from_step=restart.step,
        from_stage=restart.stage,
        repeats=pipeline.repeats(restart.stage),
        config=run.config,
        stage_versions=pipeline.versions,
        requested_by=restart.requested_by,
        roles=pipeline.roles,
    )


def check_restart(store: ArtifactStore, run: Run, restart: Restart, pipeline: Pipeline) -> None:
    """Raise ConfigurationError if an input of the stage is missing. `run` is the run before the restart."""
    if restart.stage not in pipeline.restartable:
        raise ConfigurationError(f"--from-stage {restart.stage!r}: stages are {', '.join(pipeline.restartable)}")
    num_finished = first_unfinished_step(store, run)
    if not 0 <= restart.step < run.config.num_steps:
        more = f"; ask for more with --steps {restart.step + 1}" if 0 < restart.step <= num_finished else ""
        raise ConfigurationError(
            f"--step {restart.step}: the run is asked for steps 0 to {run.config.num_steps - 1}{more}"
        )
    if restart.step > num_finished:
        raise ConfigurationError(
            f"--step {restart.step}: {num_finished} steps of run {run.run_id!r} are finished; restart one of 0 to "
            f"{num_finished}{_newest_restart(store, run)}"
        )
    if changed := _changes_of_warm_start(store, run, restart.step, pipeline.first):
        raise ConfigurationError(
            f"step {restart.step} of run {run.run_id!r} cannot be restarted with {'; '.join(changed)}: the policies before "
            "training would be others, and it begins with those; restart a later step, or train under another --run-id"
        )
    if lost := find_lost_checkpoint(store, run, restart.step):
        steps = range(min(num_finished + 1, run.config.num_steps))
        possible = [str(step) for step in steps if find_lost_checkpoint(store, run, step) is None]
        raise ConfigurationError(
            f"step {restart.step} of run {run.run_id!r} cannot be restarted: {lost} (`troupe gc` removes old checkpoints). "
            f"Steps that can: {', '.join(possible) or 'none'}"
        )
    _check_results_before(store, run, restart, pipeline)


def find_lost_checkpoint(store: ArtifactStore, run: Run, step: int) -> str | None:
    """The first incomplete checkpoint at the beginning of a step, in words; None if all are complete."""
    for begun in _checkpoints_read(run, step):
        checkpoints = checkpoints_after(store, run, begun)
        if checkpoints is None and begun == 0:
            continue  # the warm start makes them
        if checkpoints is None:
            return f"{store.uri} has no policies after {begun} updates under this configuration"
        for checkpoint in checkpoints.values():
            if not is_available(store, checkpoint):
                return f"the checkpoint of {checkpoint.policy} after {checkpoint.step} updates is incomplete in {store.uri}"
    return None


def _checkpoints_read(run: Run, step: int) -> list[int]:
    """The numbers of updates whose checkpoints a step reads."""
    return [step - 1, step] if run.config.rollout.overlap == "one_step" and step > 0 else [step]


def _changes_of_warm_start(store: ArtifactStore, run: Run, step: int, warm_start: Stage) -> list[str]:
    """What `run.config` changes, if a restart at `step` would begin with policies that its warm start has not made."""
    before = read_run(store, run.run_id).config
    fields, others = warm_start.config_fields(before), warm_start.config_fields(run.config)
    if 0 not in _checkpoints_read(run, step) or fields == others:
        return []
    sections = tuple(fields | others)
    changes = differing_fields(before.result_fields(), run.config.result_fields())
    return [each for each in changes if each.startswith(sections)]


def _newest_restart(store: ArtifactStore, run: Run) -> str:
    """How to take back the newest restart; "" for a run without restarts."""
    if not run.lineages:
        return ""
    newest = run.lineages[-1]
    return (
        f", or take back the restart from {newest.from_stage} of step {newest.from_step} first: "
        f"`troupe rm {run.run_id} --lineage {newest.lineage}{store_option(store)}`"
    )


def _check_results_before(store: ArtifactStore, run: Run, restart: Restart, pipeline: Pipeline) -> None:
    """Results of earlier stages of the step are read, not recomputed, so they must be complete."""
    keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{restart.step:06d}/"))
    needs, expiring = pipeline.inputs(restart.stage), list(pipeline.roles.expiring_with("rollouts"))
    removed = [stage for stage in needs if stage in expiring and stage not in map(stage_of, keys)]
    if removed and read_step_record(store, run, restart.step) is not None:
        raise ConfigurationError(
            f"--from-stage {restart.stage}: the results of {', '.join(removed)} in step {restart.step} are needed and were "
            f"removed (`troupe gc` keeps those of retention.rollouts {run.config.retention.rollouts}); restart with "
            f"--from-stage {expiring[0]} --step {restart.step}"
        )
    for key in keys:
        stage = stage_of(key)
        if stage not in needs:
            continue
        for ref in references_in(read_manifest_at(store, key).output):
            try:
                is_whole = has_folder(store, ref) if ref.kind == FOLDER_KIND else bool(store.get_bytes(ref))
                reason = f"{ref.key} is incomplete in {store.uri}"
            except (ArtifactMissing, ArtifactCorrupt) as error:
                is_whole, reason = False, str(error)
            if not is_whole:
                raise ConfigurationError(
                    f"--from-stage {restart.stage}: the result of {stage} in step {restart.step} is needed but lost "
                    f"({reason}); restart with --from-stage {stage} --step {restart.step}"
                )
