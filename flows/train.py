"""Training from the first step to the last; the same call again resumes."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from prefect import flow, runtime

from components.artifacts.refs import CheckpointRef
from components.config import RunConfig
from components.schema import EvalReport
from flows.active_runs import RunRecord, recorded_run, settle_dead_runs
from flows.heartbeat import without_own_heartbeat
from flows.patient_prefect import be_patient_with_prefect
from flows.preflight import preflight
from flows.runners import one_cluster, task_runner
from flows.training_iteration import training_iteration
from tasks import progress, wiring
from tasks.evaluate_policy import are_evaluated, evaluate_policy, named_versions
from tasks.home import HOME
from tasks.refresh_weights import refresh_weights
from tasks.run import Run
from tasks.session import open_session, summary
from tasks.steps import first_step
from tasks.warm_start import warm_start

_log = logging.getLogger(__name__)


def run_name() -> str:
    """What Prefect calls the flow run: the run's own name."""
    parameters = runtime.flow_run.parameters
    config = RunConfig.model_validate(parameters["config"])  # a worker hands over plain JSON
    return str(parameters.get("run_id") or config.preset)


@flow(name="train", flow_run_name=run_name)
def train(config: RunConfig, run_id: str | None = None) -> dict[str, Any]:
    """Train `config` under `run_id` (default: the preset's name) and return a summary.

    Whatever an earlier call with this run_id has finished is read, not computed again.
    """
    be_patient_with_prefect(config.resources.prefect_patience_seconds)
    config = wiring.with_sources(config)
    preflight(config)
    name = run_id or config.preset
    with recorded(name, config) as record, open_session(name, config) as session, one_cluster(config):
        record.is_published = lambda: session.publishing is None or session.outbox.is_finished
        run = session.run
        tell_links(run)
        checkpoints = warm_start(run)
        session.freeze()  # what fails before leaves the run's name free
        start = first_step(wiring.store(config), run, flow_run_id=str(runtime.flow_run.id))
        evaluations = []
        for step in range(start + 1):
            if is_evaluated(config, step):
                evaluations += evaluate_checkpoints(run, step, session.checkpoints_before(step) or checkpoints)
        checkpoints = session.checkpoints_before(start) or checkpoints
        iterate = training_iteration.with_options(task_runner=task_runner(config.resources))
        with without_own_heartbeat():
            for step in range(start, config.num_steps):
                checkpoints = iterate(run, step, checkpoints)
                tell_links(run)
                if is_evaluated(config, step + 1):
                    evaluations += evaluate_checkpoints(run, step + 1, checkpoints)
    return summary(session, checkpoints, evaluations) | {"flow_run_url": runtime.flow_run.ui_url}


@contextmanager
def recorded(run_id: str, config: RunConfig) -> Iterator[RunRecord]:
    """Inside, this process is on record as working on the run. First, runs that ended without a word are told of."""
    if settled := settle_dead_runs(HOME):
        _log.warning("ended without a word, and Prefect knows it now: %s", ", ".join(settled))
    with recorded_run(
        HOME,
        flow_run_id=str(runtime.flow_run.id),
        run_id=run_id,
        api_url=os.environ.get("PREFECT_API_URL", ""),
        tracking_url=wiring.tracking_url(config.tracking),
        experiment=config.tracking.experiment,
    ) as record:
        yield record


def is_evaluated(config: RunConfig, step: int) -> bool:
    """Whether the checkpoint after `step` updates is evaluated: the first, every so often, and the last."""
    every = config.evaluation.every
    return step in (0, config.num_steps) or (every > 0 and step % every == 0)


def evaluate_checkpoints(run: Run, step: int, checkpoints: dict[str, CheckpointRef]) -> list[EvalReport]:
    """One report for each configured way of sampling; the engines are loaded only when one is missing."""
    versions, samplings = named_versions(run.config, checkpoints), run.config.evaluation.sampling
    if not are_evaluated(run, step, samplings, versions):
        versions = refresh_weights(run, step, checkpoints)
    reports = [evaluate_policy(run, step, sampling, versions) for sampling in samplings]
    for report in reports:
        progress.tell("evaluated", step, 1, 1, report=report)
    tell_links(run)
    return reports


def tell_links(run: Run) -> None:
    """Say where a person looks at the run; MLflow's page is there once it has answered."""
    progress.tell("links", 0, 1, 1, Prefect=runtime.flow_run.ui_url, MLflow=wiring.run_url(run.config, run.run_id))
