"""What a flow run of `train` begins with: the configuration with its overrides, and a restart, recorded once per flow run."""

from collections.abc import Sequence
from dataclasses import dataclass

from components.artifacts.format import check_format
from components.config import RunConfig, differing_fields, parse_config
from components.errors import ConfigurationError
from components.identity import check_run_id
from components.runs.lineages import read_recorded_config
from components.runs.restarts import Restart, check_restart, record_restart
from components.runs.resume_checks import resume_warnings
from components.runs.run import Run
from components.runs.stored_runs import read_run
from components.session.scenario import scenario_of
from components.session.session import Session
from components.session.stores import open_store
from flows.own_files import with_sources
from flows.preflight.problem_counts import keep_counts, lower_default_counts
from flows.presets import with_overrides


def overridden_config(
    config: RunConfig, overrides: Sequence[str], num_steps: int | None, *, option: str = "overrides"
) -> RunConfig:
    """`config` with `a.b=c` lines and another number of steps. Raises ConfigurationError with field, value and remedy.

    **Example** `overridden_config(config, ["seed=1", "rollout.group_size=8"], 300)`.
    """
    if not overrides and num_steps is None:
        return config
    # Only what was written: a default of one kind of store would be an unknown field of another.
    values = with_overrides(config.model_dump(mode="json", exclude_unset=True), overrides, option=option)
    if num_steps is not None:
        values["num_steps"] = num_steps
    return parse_config(values)


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What the parameters of a flow run ask for, beside the configuration."""

    run_id: str | None
    num_steps: int | None
    overrides: tuple[str, ...]
    restart: Restart | None


def read_requested_restart(from_stage: str | None, step: int | None, flow_run_id: str) -> Restart | None:
    """The restart that the parameters of a flow run ask for. Raises ConfigurationError for one of them without the other."""
    if from_stage is None and step is None:
        return None
    if from_stage is None or step is None:
        raise ConfigurationError(
            f"from_stage {from_stage!r} and step {step}: a restart needs both, the stage and the step in which it begins; "
            "leave both out to continue the run"
        )
    return Restart(step=step, stage=from_stage, requested_by=flow_run_id)


def read_requested_run(config: RunConfig, request: StartRequest) -> tuple[Run, Restart | None, list[str]]:
    """The run to train, the restart to record first, and remarks for the user. Writes nothing.

    Of a run that is restarted `config` only names the store; the rest is the run's own newest configuration with the
    overrides. A restart that this flow run recorded at an earlier start is not made again. Raises ConfigurationError for an
    invalid value, and for a restart that is not possible.
    """
    if request.restart is None:
        settled = with_sources(overridden_config(config, request.overrides, request.num_steps))
        run_id = check_run_id(request.run_id or settled.preset)
        settled, lines = settle_counts(settled, run_id)
        return Run(run_id=run_id, config=settled), None, lines
    store = open_store(config.store)
    run = read_run(store, request.run_id or config.preset).bind_to_store(config.store)
    if any(lineage.requested_by == request.restart.requested_by for lineage in run.lineages):
        return run, None, []
    ignored = differing_fields(run.config.result_fields(), with_sources(config).result_fields())
    own = f"run {run.run_id} is restarted with its own configuration, not with config: {'; '.join(ignored)}; use overrides"
    settled = with_sources(overridden_config(run.config, request.overrides, request.num_steps))
    run = run.model_copy(update={"config": settled})
    from flows.steps import steps_for  # stages import Prefect, which takes seconds

    check_restart(store, run, request.restart, steps_for(run.config).pipeline)
    return run, request.restart, [own] if ignored else []


def settle_counts(config: RunConfig, run_id: str) -> tuple[RunConfig, list[str]]:
    """`config` with every number of problems: those that nobody chose are as many as there are, or as a run of this name was
    started with; and a line for each that a user may not expect."""
    lowered, lines = lower_default_counts(scenario_of(config))
    return keep_recorded_counts(lowered, lines, chosen=config, run_id=run_id)


def keep_recorded_counts(
    lowered: RunConfig, lines: list[str], *, chosen: RunConfig, run_id: str
) -> tuple[RunConfig, list[str]]:
    """What `lower_default_counts` gave for `chosen`, with the numbers of problems of the run of this name."""
    if lowered is chosen:
        return chosen, []
    recorded = read_recorded_config(open_store(chosen.store), run_id)
    kept, of_run = keep_counts(lowered, chosen, recorded)
    return kept, [*([] if recorded else lines), *of_run]


def commit_restart(session: Session, restart: Restart) -> list[str]:
    """Record a restart of the session's run, whose checks have passed. Returns remarks for the user."""
    store = session.store
    check_format(store)
    run = read_run(store, session.run.run_id)
    remarks = resume_warnings(store, run)
    from flows.steps import steps_for  # stages import Prefect, which takes seconds

    pipeline = steps_for(session.config).pipeline
    record_restart(store, run.model_copy(update={"config": session.config}), restart, pipeline)
    return remarks
