"""The tracker of a run, by the tracking section of its configuration."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from components.config import TrackingConfig
from components.process_variables import read_variable, without_variables
from components.tracking.base import Tracker
from components.tracking.null import NoTracker

if TYPE_CHECKING:
    from components.tracking.mlflow import MlflowTracker

_ACCOUNT = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_environment = threading.Lock()


def tracker_of(config: TrackingConfig) -> Tracker:
    """The tracker of a configuration. Sends no request."""
    if config.kind == "none":
        return NoTracker()
    url = tracking_url(config)
    if url is None:
        return NoTracker(
            "tracking.url: no MLflow server is configured; start the local services with `troupe up`, set "
            "MLFLOW_TRACKING_URI, or turn tracking off with --set tracking.kind=none"
        )
    return mlflow_tracker(url, config.experiment, register_models=config.register_models)


def mlflow_tracker(url: str, experiment: str, *, register_models: bool) -> "MlflowTracker":
    """A tracker for the MLflow server at `url`.

    If MLFLOW_TRACKING_URI names another server, the credentials in the environment belong to that one and are not sent.
    """
    from components.tracking.mlflow import MlflowTracker

    named = read_variable("MLFLOW_TRACKING_URI")
    withheld = _ACCOUNT if named and named.rstrip("/") != url.rstrip("/") else ()
    return MlflowTracker(url, experiment, register_models=register_models, account=partial(_without, withheld))


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """Remove these environment variables inside. The lock keeps the requests of trackers that need them outside."""
    with _environment, without_variables(names):
        yield


def tracking_url(config: TrackingConfig) -> str | None:
    """The tracking server's address, or None if none is configured or tracking is off."""
    if config.kind == "none":
        return None
    return config.url or read_variable("MLFLOW_TRACKING_URI")
