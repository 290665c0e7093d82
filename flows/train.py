"""Trains from the first step to the last; the same call again resumes."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any, Literal

from prefect import get_run_logger, runtime
from prefect.context import SyncClientContext
from prefect.states import Crashed
from pydantic import Field

from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.errors import StageOvertaken
from components.identity import check_run_id
from components.machine.gc_tuning import gc_relaxed
from components.machine.home import HOME
from components.reporting import progress
from components.reporting.progress import subscribe
from components.rollout.lessons import first_look
from components.runs.lineages import view_command
from components.runs.restarts import Restart
from components.runs.resume_checks import validate_start
from components.runs.run import Run
from components.runs.steps import checkpoints_before, first_step, last_step
from components.schema import EvalReport, IterationReport
from components.session.scenario import Scenario
from components.session.session import Session
from components.session.stores import s3_endpoint
from components.session.trackers import tracking_url
from components.session.training_session import freeze_run, summary, training_session
from flows.iteration import training_iteration
from flows.own_files import with_sources
from flows.prefect_runtime.active_runs import (
    end_children,
    mark_dead_runs_crashed,
    mark_in_bucket,
    record_process,
    wait_for_earlier_start,
)
from flows.prefect_runtime.interruptible_flow import interruptible_flow
from flows.prefect_runtime.iteration_runs import iteration_runs
from flows.prefect_runtime.resumption import find_cancelled_state
from flows.prefect_runtime.retrying_transport import retry_prefect_outages
from flows.prefect_runtime.settings import patient_with_temporary_server
from flows.preflight.checks import preflight
from flows.presets import list_changes_from_preset
from flows.run_pages import RunPages
from flows.runners import one_cluster, start_engines_on_cluster, task_runner
from flows.starts import StartRequest, commit_restart, read_requested_restart, read_requested_run
from flows.steps import STEPS, steps_for
from tasks.compute_advantages import warn_once
from tasks.warm_start import warm_start

_log = logging.getLogger(__name__)
_BELOW_THE_SHORT_FIELDS: Any = Field(json_schema_extra={"position": 6})
"""Prefect's form shows parameters by position, and `config`, which fills pages, would come first."""
if TYPE_CHECKING:
    Stage = str
else:  # the form offers the names
    Stage = Literal[tuple(dict.fromkeys(name for each in STEPS.values() for name in each.pipeline.restartable))]


def run_name() -> str:
    """The flow run's name in Prefect: the run's own."""
    parameters = runtime.flow_run.parameters
    config = RunConfig.model_validate(parameters["config"])  # a worker passes plain JSON
    return str(parameters.get("run_id") or config.preset)


@interruptible_flow(name="train", flow_run_name=run_name)
def train(
    config: RunConfig = _BELOW_THE_SHORT_FIELDS,
    run_id: str | None = None,
    num_steps: Annotated[int | None, Field(ge=0)] = None,
    overrides: list[str] | None = None,
    from_stage: Stage | None = None,
    step: Annotated[int | None, Field(ge=0)] = None,
) -> dict[str, Any]:
    """Train under a run's name, by the method of the configuration, and return a summary. The same parameters again continue
    the run: results of earlier calls are read, not computed again.

    Args:
        config: The whole configuration; `overrides` change single values of it. A restart takes only the store from it, and
            the rest from the run.
        run_id: The name of the run. A run of this name is continued. Empty: the name of the preset.
        num_steps: The number of training steps, those already done included. Empty: that of the configuration.
        overrides: Lines like `seed=1` or `rollout.group_size=8`, as after `--set`.
        from_stage: Restart the run at this stage of `step`, as `troupe resume RUN --from-stage S --step N`. Nothing is deleted.
        step: The step of the restart, counted from 0; together with `from_stage`.
    """
    restart = read_requested_restart(from_stage, step, str(runtime.flow_run.id))
    return train_run(config, StartRequest(run_id, num_steps, tuple(overrides or ()), restart))


train_population = train.with_options(name="train-population")
train_hybrid = train.with_options(name="train-hybrid")
"""The same flow under names of its own, for Prefect's pages and deployments."""


def flow_for(config: RunConfig) -> Callable[..., dict[str, Any]]:
    """The flow under the name of a configuration's method."""
    named: Mapping[str, Callable[..., dict[str, Any]]] = {"population": train_population, "hybrid": train_hybrid}
    return named.get(config.method.type, train)


def train_run(config: RunConfig, request: StartRequest) -> dict[str, Any]:
    """The summary of the run that this flow run asks for, trained to its end."""
    retry_prefect_outages(config.resources.prefect_patience_seconds)
    if (cancelled := find_cancelled_state()) is not None:
        return cancelled  # type: ignore[return-value]  # Prefect ends the flow run in a state that is returned
    wait_for_earlier_start(HOME, str(runtime.flow_run.id))
    began_at_seconds = monotonic()
    run, restart, warnings = read_requested_run(config, request)
    checked = _checked.get()
    on_step = None if checked is None else checked.on_step
    while True:
        try:
            with nullcontext(checked) if checked is not None else open_checked_session(run) as session:
                assert (session.run.run_id, session.config) == (run.run_id, run.config), (
                    "the session handed over is of another run"
                )
                if restart is not None:
                    warnings += commit_restart(session, restart)
                    restart = None
                for warning in warnings:
                    _log.warning("%s", warning)
                session.on_step = on_step
                return train_in_session(session, began_at_seconds) | {"flow_run_url": flow_run_page()}
        except StageOvertaken as overtaken:  # at least one more stage is committed than when this process looked
            _log.warning("%s; this process continues from what is committed", overtaken)
            checked = None


_checked: ContextVar[Session | None] = ContextVar("checked", default=None)
_is_server_temporary: ContextVar[bool] = ContextVar("is_server_temporary", default=False)


@contextmanager
def using(session: Session, *, is_server_temporary: bool = False) -> Iterator[None]:
    """Within the block `train` works in this session, whose checks have passed, and neither opens nor checks one.

    `is_server_temporary`: the Prefect server ends with this process. Nobody is led to its pages, and no record for later
    processes names it.
    """
    token, temporary = _checked.set(session), _is_server_temporary.set(is_server_temporary)
    try:
        yield
    finally:
        _checked.reset(token)
        _is_server_temporary.reset(temporary)


def flow_run_page() -> str | None:
    """The address of this flow run's page in Prefect; None where its server is temporary."""
    return None if _is_server_temporary.get() else runtime.flow_run.ui_url


def open_session(run: Run, scenario: Scenario | None = None) -> Session:
    """A session to train in, for `preflight` to check."""
    return Session(run, scenario=scenario, computes_all=run.config.resources.runner == "thread")


def train_here(
    config: RunConfig,
    run_id: str,
    *,
    restart: Restart | None = None,
    on_session: Callable[[Session], None] = lambda session: None,
    on_step: Callable[[IterationReport], None] | None = None,
) -> dict[str, Any]:
    """Train a run in this process to `config.num_steps`; the flow's summary. A run of the name is continued.

    `restart` is recorded first, so that the run continues from there with this configuration. `on_session` is called with the
    session whose checks have passed, `on_step` when a step is stored. Where no Prefect server is named, one is started for the
    run, and may take as long as the run would wait for one that is away. Raises ConfigurationError before anything expensive,
    ConfigDrift for another configuration under the name, and what the flow raises.
    """
    settled = with_sources(config)
    with open_checked_session(Run(run_id=check_run_id(run_id), config=settled)) as session:
        on_session(session)
        session.on_step = on_step
        if restart is None:
            validate_start(session.store, run_id, settled, steps_for(settled).pipeline)
        else:
            commit_restart(session, restart)
        with using(session), patient_with_temporary_server(settled.resources.prefect_patience_seconds):
            return flow_for(settled)(settled, run_id)


@contextmanager
def open_checked_session(run: Run) -> Iterator[Session]:
    """A session to train in, whose checks have passed."""
    with open_session(run) as session:
        preflight(session)
        yield session


def train_in_session(session: Session, began_at_seconds: float) -> dict[str, Any]:
    """The summary of the session's run, trained to its end.

    Raises StageOvertaken if another process on the run commits a different result first.
    """
    view = view_command(session.store, session.run.run_id)
    pages = RunPages(session.run.run_id, get_run_logger(), view=view)
    with (
        record_working_process(session),
        training_session(session, steps_for(session.config).pipeline),
        one_cluster(session),
        subscribe(pages.hear),
    ):
        checkpoints, evaluations, num_steps = train_steps(session)
    found = summary(session, checkpoints, evaluations, num_steps=num_steps, began_at_seconds=began_at_seconds)
    pages.end(found)
    return found


def train_steps(session: Session) -> tuple[dict[str, CheckpointRef], list[EvalReport], int]:
    """The checkpoints after the last step, all evaluations, and the number of steps."""
    tell_links(session)
    steps, first = steps_for(session.config), warm_start(session)
    freeze_run(
        session, steps.pipeline, list_changes_from_preset(session.config)
    )  # a failure before leaves the name free
    start_engines_on_cluster(session)
    run, store = session.run, session.store
    start = first_step(store, run, flow_run_id=str(runtime.flow_run.id))
    num_steps = last_step(store, run)
    evaluations: list[EvalReport] = []
    for step in range(start + 1):
        if is_evaluated(session.config, step, num_steps):
            evaluations += steps.evaluate(session, step, checkpoints_before(store, run, step))
    tell_links(session)
    if start == 0 and session.config.method.writes_answers:
        warn_once(session, 0, first_look(evaluations, session.config))
    checkpoints = checkpoints_before(store, run, start) if start else first
    iteration = training_iteration.with_options(task_runner=task_runner(session.config))
    is_fast = session.config.resources.fast_iterations
    with gc_relaxed(), iteration_runs(iteration) if is_fast else nullcontext(iteration) as iterate:
        for step in range(start, num_steps):
            checkpoints = iterate(session, step, checkpoints)
            tell_links(session)
            if is_evaluated(session.config, step + 1, num_steps):
                evaluations += steps.evaluate(session, step + 1, checkpoints)
                tell_links(session)
    return checkpoints, evaluations, num_steps


@contextmanager
def record_working_process(session: Session) -> Iterator[None]:
    """Within the block this process is recorded as working on the run. First, dead runs are reported."""
    if _is_server_temporary.get():
        yield
        return
    if session.config.store.kind == "s3" and session.config.store.endpoint_url is None and s3_endpoint():
        mark = mark_in_bucket(HOME, session.run.run_id)
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        mark.touch()
    with record_process(
        HOME,
        flow_run_id=str(runtime.flow_run.id),
        run_count=runtime.flow_run.run_count,
        run_id=session.run.run_id,
        api_url=os.environ.get("PREFECT_API_URL", ""),
        tracking_url=tracking_url(session.config.tracking),
        experiment=session.config.tracking.experiment,
    ) as record:
        record.is_published = lambda: session.publishing is None or session.publishing.outbox.is_finished
        if settled := mark_dead_runs_crashed(HOME):
            _log.warning("reported as ended: %s", ", ".join(settled))
        if runtime.flow_run.run_count > 1:
            end_children_of_earlier_starts()
        yield


def end_children_of_earlier_starts() -> None:
    """End in Prefect what a killed process has left unfinished of this flow run, which has no children of its own yet."""
    context = SyncClientContext.get()
    assert context is not None, "there is no flow run in this context"
    message = "The process that worked on it ended without a word; the flow run was started again."
    end_children(context.client, str(runtime.flow_run.id), Crashed(message=message))


def is_evaluated(config: RunConfig, step: int, num_steps: int) -> bool:
    """Whether the checkpoint after `step` updates is evaluated: the first, every `evaluation.every`-th, and the last."""
    every = config.evaluation.every
    return step in (0, num_steps) or (every > 0 and step % every == 0)


def tell_links(session: Session) -> None:
    """Report the run's pages; MLflow's is known once MLflow has answered."""
    mlflow = session.tracker.run_url(session.run.run_id)
    progress.report("links", 0, 1, 1, Prefect=flow_run_page(), MLflow=mlflow)
