"""`troupe train` and `troupe resume` behind their arguments: services, preflight, the flow, the summary."""

import os
import urllib.error
import urllib.request
from collections.abc import Sequence

from rich.console import Console

from components.artifacts.runs import start_lineage
from components.config import RunConfig, parse_config
from components.errors import ConfigurationError, ServiceMissing
from components.identity import STAGES, checked_run_id
from flows.preflight import check_environment, preflight
from flows.presets import with_overrides
from flows.reading import read_run
from flows.services.client import join_local_services
from flows.stores import opened_store


def run_training(config: RunConfig, run_id: str) -> None:
    """Train in this process with a live display, and say where to look afterwards."""
    join_local_services()
    checked_run_id(run_id)
    check_environment(config)
    require_prefect()
    # What Prefect says of each task goes to its own pages; the terminal has the display.
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "WARNING")
    console = Console()
    with console.status("loading"):
        from flows.display import TrainingDisplay
        from flows.summary import print_summary
        from flows.train import train

        preflight(config)
    with TrainingDisplay(console).shown():
        summary = train(config, run_id)
    print_summary(console, summary)


def run_resume(
    run_id: str,
    *,
    store_uri: str | None,
    from_stage: str | None,
    step: int | None,
    overrides: Sequence[str],
    num_steps: int | None,
) -> None:
    """Go on with a run; with `from_stage` and `step`, start a new lineage there first."""
    store = opened_store(store_uri)
    run = read_run(store, run_id)
    values = with_overrides(run.config.model_dump(mode="json"), overrides)
    if num_steps is not None:
        values["num_steps"] = num_steps
    config = parse_config(values)
    if from_stage is not None and step is not None:
        if from_stage not in STAGES[2:]:
            raise ConfigurationError(f"--from-stage {from_stage!r}: stages are {', '.join(STAGES[2:])}")
        if not 0 <= step < config.num_steps:
            raise ConfigurationError(f"--step {step}: the run has steps 0 to {config.num_steps - 1}")
        start_lineage(store, run_id, from_step=step, from_stage=from_stage, config=config)
    run_training(config, run_id)


def require_prefect() -> None:
    """Raise ServiceMissing unless the Prefect server that this process is told to use answers."""
    url = os.environ.get("PREFECT_API_URL")
    if not url:
        raise ServiceMissing(
            "Prefect: no server is configured; start the local services with `troupe up`, or set PREFECT_API_URL"
        )
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5):
            return
    except (urllib.error.URLError, OSError) as error:
        raise ServiceMissing(
            f"Prefect: {url} does not answer ({error}); start it with `troupe up`, or set PREFECT_API_URL to one that runs"
        ) from error
