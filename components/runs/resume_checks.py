"""Checks before a run starts or resumes, and remarks for the user."""

from components.artifacts.base import ArtifactStore
from components.artifacts.format import check_format
from components.config import RunConfig
from components.errors import ConfigurationError
from components.identity import check_run_id
from components.runs.lineages import check_drift, has_leftovers, read_config, read_lineages, store_option
from components.runs.pipeline import Pipeline
from components.runs.provenance import library_versions, list_changed_libraries, list_changed_stages
from components.runs.run import Run
from components.runs.session_records import SessionStart, live_sessions, newest_lineage, readable_sessions
from components.runs.steps import first_unfinished_step


def validate_start(store: ArtifactStore, run_id: str, config: RunConfig, pipeline: Pipeline) -> Run:
    """The run to start or resume with `config` under this name. Writes nothing.

    Raises StoreRefused for a store of a newer format, ConfigDrift for another configuration, ConfigurationError for a run
    that was only partly removed or whose finished steps were computed by other versions of the stages.
    """
    check_run_id(run_id)
    check_format(store)
    if has_leftovers(store, run_id):
        raise ConfigurationError(
            f"run {run_id!r} was removed only in part: finish it with `troupe rm {run_id}{store_option(store)}`, or "
            "choose another --run-id"
        )
    check_drift(store, run_id, config, pipeline)
    run = Run(run_id=run_id, config=config, lineages=tuple(read_lineages(store, run_id)))
    if read_config(store, run_id) is not None:
        _check_stage_versions(store, run, pipeline)
    return run


def resume_warnings(store: ArtifactStore, run: Run) -> list[str]:
    """One line per live session of the run, and one for libraries that have changed since its last session."""
    lines = [
        f"{session.host} (process {session.pid}) has worked on run {run.run_id} since {session.started_at}; joining it: "
        "if both compute a stage, the first result counts"
        for session in live_sessions(store, run.run_id)
    ]
    known = [session.provenance for session in _of_newest_lineage(store, run)]
    if known and (changes := list_changed_libraries(known[-1].libraries, library_versions())):
        lines.append(
            f"run {run.run_id} was computed with other libraries until now: {', '.join(changes)}; what follows may differ from "
            "an uninterrupted run in its last digits"
        )
    return lines


def surplus_line(store: ArtifactStore, run: Run) -> list[str]:
    """One line if the run has more steps than its configuration asks for."""
    num_finished = first_unfinished_step(store, run)
    if num_finished <= run.config.num_steps:
        return []
    return [
        f"run {run.run_id} has {num_finished} steps already, more than the {run.config.num_steps} asked for: nothing is "
        f"trained; its evaluation and checkpoint are those after step {num_finished}"
    ]


def _check_stage_versions(store: ArtifactStore, run: Run, pipeline: Pipeline) -> None:
    """Raise ConfigurationError if a stage's version differs from that of the earlier results since the newest restart."""
    recorded = [session.provenance.stage_versions for session in _of_newest_lineage(store, run)]
    before = (run.lineages[-1].stage_versions if run.lineages else {}) or (recorded[0] if recorded else {})
    changes = list_changed_stages(before, pipeline.versions)
    step = first_unfinished_step(store, run)
    if changes and step < run.config.num_steps:
        raise ConfigurationError(
            f"run {run.run_id!r} was computed by other versions of its stages ({', '.join(changes)}), and its results would "
            f"mix. Use the new ones from a step on: `troupe resume {run.run_id}{store_option(store)} "
            f"--from-stage {pipeline.restartable[0]} --step {step}`; or continue with the Troupe that started it"
        )


def _of_newest_lineage(store: ArtifactStore, run: Run) -> list[SessionStart]:
    """The sessions since the run's newest restart, oldest first."""
    return [each for each in readable_sessions(store, run.run_id) if each.lineage == newest_lineage(run)]
