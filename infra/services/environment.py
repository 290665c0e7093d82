"""The addresses of the running services, and the environment variables of services and of their clients."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.frozen import Frozen
from components.machine.child_environment import WAITING, filter_environment, without_proxy
from infra.services.prefect_server import prefect_home
from infra.services.seaweedfs import client_settings
from infra.services.secrets import USER, ensure_password

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Turns off the telemetry of every service and client."""

_ACCOUNTS = {
    "prefect": ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_PROFILE"),
    "mlflow": ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"),
    "s3": (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_PROFILE",
        "AWS_ENDPOINT_URL",
    ),
}


class PrefectAddress(Frozen):
    """The Prefect server's API and pages."""

    api_url: str
    ui_url: str


class MlflowAddress(Frozen):
    """The MLflow server's address for clients and pages."""

    url: str


class S3Address(Frozen):
    """The S3 server and Troupe's bucket on it."""

    endpoint: str
    bucket: str


class WorkerState(Frozen):
    """The worker that runs deployments."""

    pool: str
    name: str
    pid: int


class StackStatus(Frozen):
    """The services of a home folder; None for one that is down."""

    home: Path
    prefect: PrefectAddress | None = None
    mlflow: MlflowAddress | None = None
    s3: S3Address | None = None
    worker: WorkerState | None = None

    def document(self) -> dict[str, Any]:
        """As JSON: `{prefect: {api_url, ui_url}, mlflow: {url}, s3: {endpoint, bucket}, worker: {pool, name, pid}}`."""
        return self.model_dump(mode="json", exclude={"home"})


def user_accounts(status: StackStatus) -> list[str]:
    """The variables of the user's own accounts, which must not reach a running local server and would override its account."""
    return [name for service, names in _ACCOUNTS.items() if getattr(status, service) for name in names]


def environment(status: StackStatus) -> dict[str, str]:
    """The variables with which a client finds the running services; prefect reads them on import."""
    waiting = {name: os.environ.get(name, value) for name, value in WAITING.items()}
    found = {**waiting, **QUIET, "TROUPE_HOME": str(status.home)}
    if status.prefect:
        found |= {
            "PREFECT_API_URL": status.prefect.api_url,
            "PREFECT_API_AUTH_STRING": ensure_password(status.home),
            "PREFECT_HOME": str(prefect_home(status.home)),
            "PREFECT_LOGGING_EXTRA_LOGGERS": "components,tasks,flows",
            # Threads beside a flow (the outbox) also log, and belong to no flow run.
            "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        }
    if status.mlflow:
        found |= {
            "MLFLOW_TRACKING_URI": status.mlflow.url,
            "MLFLOW_TRACKING_USERNAME": USER,
            "MLFLOW_TRACKING_PASSWORD": ensure_password(status.home),
        }
    if status.s3:
        found |= {
            "AWS_ENDPOINT_URL_S3": status.s3.endpoint,
            "MLFLOW_S3_ENDPOINT_URL": status.s3.endpoint,
            **client_settings(status.home),
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    return found


def exports(status: StackStatus) -> str:
    """Shell lines with which the user's own clients find the running services and log in."""
    found = {**environment(status), **without_proxy(os.environ)}
    hidden = [name for name in user_accounts(status) if name not in found]
    unset = [f"unset {' '.join(hidden)}"] if hidden else []
    return "\n".join([*unset, *(f"export {name}={shlex.quote(value)}" for name, value in found.items())])


def service_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a service: what it may inherit and `own`. No PYTHONDONTWRITEBYTECODE, which doubles import times."""
    kept = filter_environment(os.environ)
    # The folder of this environment's programs. Resolving sys.executable would leave the virtual environment.
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, **without_proxy(kept), **QUIET, "PYTHONUNBUFFERED": "1", **own}
