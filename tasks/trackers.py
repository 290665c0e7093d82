"""Where runs are shown, by the tracking section of their configuration."""

import os

from components.config import TrackingConfig
from components.errors import TrackingUnavailable
from components.tracking.base import Tracker
from components.tracking.memory import InMemoryTracker


def tracker_of(config: TrackingConfig) -> Tracker:
    """The tracker of a configuration; the server is asked for nothing yet."""
    if config.kind == "none":
        return InMemoryTracker()
    url, named = tracking_url(config), os.environ.get("MLFLOW_TRACKING_URI")
    if url is None:
        return InMemoryTracker(
            available=False,
            why_not="tracking.url: no MLflow server is configured; start the local services with `troupe up`, set "
            "MLFLOW_TRACKING_URI, or turn tracking off with --set tracking.kind=none",
        )
    if named and url != named:
        # MLflow would send the credentials of the server that the environment names to this other one.
        for variable in ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD"):
            os.environ.pop(variable, None)
    from components.tracking.mlflow import MlflowTracker

    return MlflowTracker(url, config.experiment, register_models=config.register_models)


def tracking_url(config: TrackingConfig) -> str | None:
    """The tracking server's address; None where nobody names one, or nothing is tracked."""
    if config.kind == "none":
        return None
    return config.url or os.environ.get("MLFLOW_TRACKING_URI")


def run_url(tracker: Tracker, run_id: str) -> str | None:
    """Where a person looks at the run; None while the tracking server does not answer."""
    try:
        return tracker.run_url(run_id)
    except TrackingUnavailable:
        return None
