"""The tracker of a run, by the tracking section of its configuration."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from components.config import TrackingConfig
from components.errors import ConfigurationError
from components.machine.process_variables import read_variable, without_variables
from components.tracking.base import Tracker
from components.tracking.null import NoTracker
from components.user_code import as_config_error, import_object, is_custom

if TYPE_CHECKING:
    from components.tracking.mlflow import MlflowTracker
    from components.tracking.mlflow_registry import TeamVersion

_ACCOUNT = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
_environment = threading.Lock()


def tracker_of(config: TrackingConfig) -> Tracker:
    """The tracker of a configuration. Sends no request. Raises ConfigurationError for a class of one's own that is none."""
    if config.kind == "none":
        return NoTracker()
    if is_custom(config.kind):
        return own_tracker(config)
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
    """MLflow's address, or None if none is configured or tracking is off or one's own."""
    return (config.url or read_variable("MLFLOW_TRACKING_URI")) if config.kind == "mlflow" else None


def own_tracker(config: TrackingConfig) -> Tracker:
    """An instance of the class `tracking.kind` (`module:Class`), called with the section `tracking`.

    Its source is no part of any result's key: a tracker decides no result. Raises ConfigurationError if it cannot be made or
    lacks a method.
    """
    field = "tracking.kind"
    made = import_object(field, config.kind)
    with as_config_error(f"{field} {config.kind!r}"):
        tracker = made(config)
    methods = [name for name in vars(Tracker) if not name.startswith("_")]
    if missing := [name for name in methods if not callable(getattr(tracker, name, None))]:
        raise ConfigurationError(
            f"{field} {config.kind!r}: has no {', '.join(missing)}; write the methods of troupe.Tracker, "
            f"which are {', '.join(methods)}"
        )
    own: Tracker = tracker
    return own


def set_alias(model: str, alias: str, version: int, *, config: TrackingConfig | None = None) -> None:
    """Let `alias` name a version of a registered model. Raises ConfigurationError if there is none, TrackingUnavailable."""
    _registry(config).registry.set_alias(model, alias, version)


def version_of(model: str, alias: str, *, config: TrackingConfig | None = None) -> int | None:
    """The version of a registered model that `alias` names, or None. Raises TrackingUnavailable."""
    return _registry(config).registry.version_of(model, alias)


def name_champion(run_id: str, step: int, *, weights: str | None = None, config: TrackingConfig | None = None) -> bool:
    """Let the alias `champion` name the version of a run's step with these weights (None: any); False if it is not registered.
    Raises TrackingUnavailable."""
    return _registry(config).registry.name_champion(run_id, step, weights=weights)


def resolve_model(uri: str, *, config: TrackingConfig | None = None) -> "TeamVersion":
    """The run, step and folders of the registered team at `models:/name@alias` or `models:/name/3`.

    Raises ConfigurationError if there is none whose files are in the store, TrackingUnavailable.

    **Example** `resolve_model("models:/plan-path@best").run_id` is "plan-path", its `step` 40, and its `folder_uris`
    `{"team": "s3://troupe/folders/9f2c…"}`.
    """
    return _registry(config).registry.resolve(uri)


def _registry(config: TrackingConfig | None) -> "MlflowTracker":
    chosen = config or TrackingConfig()
    url = tracking_url(chosen)
    if url is None:
        raise ConfigurationError(
            "tracking.url: the model registry is MLflow's, and no MLflow server is configured; start the local services with "
            "`troupe up`, or set MLFLOW_TRACKING_URI"
        )
    return mlflow_tracker(url, chosen.experiment, register_models=True)
