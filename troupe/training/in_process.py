"""`troupe train` and `troupe resume`: services, preflight, the flow, the summary."""

import http.client
import os
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

from rich.console import Console

from components.config import RunConfig, StoreConfig
from components.errors import ConfigurationError, ServiceMissing
from components.identity import check_run_id
from components.machine.gc_tuning import gc_paused
from components.machine.home import HOME, ensure_home
from components.runs.pipeline import Pipeline
from components.runs.restarts import Restart, check_restart
from components.runs.resume_checks import resume_warnings, surplus_line, validate_start
from components.runs.run import Run
from components.runs.stored_runs import read_run
from components.schema import IterationReport
from components.session.scenario import Scenario, scenario_of
from components.session.session import Session
from components.session.stores import s3_endpoint
from components.session.trackers import tracking_url
from flows.own_files import with_sources
from flows.prefect_runtime.active_runs import mark_in_bucket
from flows.preflight.checks import check_base_names, check_configuration, check_services
from flows.preflight.problem_counts import lower_default_counts
from flows.starts import commit_restart, keep_recorded_counts, overridden_config
from infra.services.client import join_local_services
from infra.services.environment import StackStatus
from infra.services.own_prefect import OwnPrefect, own_prefect
from infra.services.process import make_private
from infra.services.stack import outage
from troupe.consoles import console as made_console
from troupe.consoles import show_wait
from troupe.runs.stores import began_without_services, is_without_services, open_named_store, own_folder, store_config
from troupe.runs.summary import TrainingReport, print_summary


def place_store(config: RunConfig, store_uri: str | None, overrides: Sequence[str]) -> RunConfig:
    """`config` with the store at `store_uri`, if one is named. Raises ConfigurationError if `overrides` also name a store."""
    if store_uri is None:
        return config
    if named := [override for override in overrides if override.startswith(("store.", "store="))]:
        raise ConfigurationError(
            f"--set {named[0]} and --store {store_uri} (or TROUPE_STORE) both name a store; leave one of them out"
        )
    return config.model_copy(update={"store": config.store.move_to(store_config(store_uri))})


def run_training(
    config: RunConfig,
    run_id: str,
    *,
    restart: Restart | None = None,
    console: Console | None = None,
    on_step: Callable[[IterationReport], None] | None = None,
) -> TrainingReport:
    """Train here, with a live display and a summary on `console`. A restart is recorded only after all checks have passed.

    `on_step` is called with each finished step's report.
    """
    services = join_local_services()
    check_run_id(run_id)
    alone = is_without_services()
    config, lines = settle_store(config, run_id, is_alone=alone)
    config = with_sources(config)
    scenario = scenario_of(config)
    lowered, settled = lower_default_counts(scenario)
    check_configuration(replace(scenario, config=lowered))
    if not alone:
        check_servers(config, services)
    config, settled = keep_recorded_counts(lowered, settled, chosen=config, run_id=run_id)
    scenario = replace(scenario, config=config)
    console = console or made_console()
    for line in lines:
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    with own_prefect() if alone else nullcontext() as server:
        summary = _train(scenario, run_id, restart, console, on_step, settled, server)
    print_summary(console, summary, is_alone=alone)
    return TrainingReport.model_validate({name: summary[name] for name in TrainingReport.model_fields})


def _train(
    scenario: Scenario,
    run_id: str,
    restart: Restart | None,
    console: Console,
    on_step: Callable[[IterationReport], None] | None,
    settled: list[str],
    server: OwnPrefect | None,
) -> dict[str, Any]:
    """The summary of the flow, run here with a live display; `server` is the Prefect server of a run without services."""
    with show_wait("loading", console), gc_paused():
        from flows.prefect_runtime.settings import current_server
        from flows.steps import steps_for
        from flows.train import flow_for, open_session, using
        from troupe.training.display import TrainingDisplay

    config = scenario.config
    with open_session(Run(run_id=run_id, config=config), scenario) as session:
        session.on_step = on_step
        with show_wait("checking services and configuration", console):
            check_services(session, expects_tracking=server is None)
            pipeline = steps_for(config).pipeline
            lines = [*settled, *_admit(session, restart, pipeline)]
            if server is not None:
                server.wait(config.resources.prefect_patience_seconds)
        for line in lines:
            console.print(line, style="yellow", highlight=False, markup=False, soft_wrap=True)
        with (
            TrainingDisplay(console, pipeline.roles).show(),
            current_server(),
            using(session, is_server_temporary=server is not None),
        ):
            summary: dict[str, Any] = flow_for(config)(config, run_id)
            return summary


def settle_store(config: RunConfig, run_id: str, *, is_alone: bool) -> tuple[RunConfig, list[str]]:
    """`config` with the store that the run is in, or will be, where it names none; and what to say of it."""
    is_default = config.store == StoreConfig().model_copy(update={"patience_seconds": config.store.patience_seconds})
    has_begun = is_default and began_without_services(run_id)
    if is_default and (has_begun or (is_alone and s3_endpoint() is None)):
        if not has_begun and mark_in_bucket(HOME, run_id).exists():
            raise ServiceMissing(
                f"run {run_id!r} is in the store of the services: {outage(HOME, 's3')}, or give another run's name, --run-id"
            )
        make_private(ensure_home(HOME))
        (HOME / "store").mkdir(mode=0o700, exist_ok=True)
        config = config.model_copy(update={"store": config.store.move_to(own_folder())})
    place = config.store.root if config.store.kind == "local" else f"s3://{config.store.bucket}/{config.store.prefix}"
    if is_alone:
        lacks_mlflow = config.tracking.kind == "mlflow" and tracking_url(config.tracking) is None
        return config, [
            f"no services are up: the run is stored in {place}, with a Prefect server of its own"
            f"{' and without MLflow' if lacks_mlflow else ''}; `troupe up` starts them, and the same command then continues it"
        ]
    return config, [f"this run began without services and is stored in {place}"] if has_begun else []


def check_servers(config: RunConfig, services: StackStatus) -> None:
    """Raise ServiceMissing where Prefect or the local S3 is not there."""
    try:
        require_prefect()
        require_store(config.store, services)
    except ServiceMissing:
        if config.store.kind != "local":
            check_base_names(config)  # reported first: starting services would not fix it
        raise


def _admit(session: Session, restart: Restart | None, pipeline: Pipeline) -> list[str]:
    """Remarks for the user, once the run may start with its configuration. Records a restart."""
    store, run_id, config = session.store, session.run.run_id, session.config
    if restart is not None:
        return commit_restart(session, restart)
    run = validate_start(store, run_id, config, pipeline)
    return [*resume_warnings(store, run), *surplus_line(store, run)]


def run_resume(
    run_id: str,
    *,
    store_uri: str | None,
    from_stage: str | None,
    step: int | None,
    overrides: Sequence[str],
    num_steps: int | None,
) -> None:
    """Continue a run in its store; with `from_stage` and `step`, restart it there."""
    if named := [override for override in overrides if override.startswith(("store.", "store="))]:
        raise ConfigurationError(
            f"--set {named[0]}: a run continues in the store it is in; name its store with --store"
        )
    store = open_named_store(store_uri, run_id)
    run = read_run(store, run_id).bind_to_store(store_config(store_uri, run_id))
    config = with_sources(overridden_config(run.config, overrides, num_steps, option="--set"))
    restart = None if from_stage is None or step is None else Restart(step=step, stage=from_stage)
    if restart is not None:
        with gc_paused():
            from flows.steps import steps_for
        check_restart(store, run.model_copy(update={"config": config}), restart, steps_for(config).pipeline)
    run_training(config, run_id, restart=restart)


def require_prefect() -> None:
    """Raise ServiceMissing unless the Prefect server of this process answers."""
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        raise ServiceMissing(f"Prefect: no server is configured, and {outage(HOME, 'prefect')}, or set PREFECT_API_URL")
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise ServiceMissing(
            f"Prefect: {url} does not answer ({error}); start it with `troupe up`, or set PREFECT_API_URL to one that runs"
        ) from error


def require_store(config: StoreConfig, services: StackStatus) -> None:
    """Raise ServiceMissing where the local services are used, the store is on S3, and of these services S3 is not there."""
    if config.kind == "s3" and config.endpoint_url is None and services.prefect and s3_endpoint() is None:
        raise ServiceMissing(f"store: {outage(HOME, 's3')}, or name another S3 in store.endpoint_url")
