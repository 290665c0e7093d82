"""The environment variables of the services, and of the clients that look for them."""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from infra.services.password import USER, ensure_password
from infra.services.ports import LOOPBACK
from infra.services.prefect_server import prefect_home
from infra.services.seaweedfs import REGION, credentials_file
from infra.services.status import StackStatus
from tasks.inherited import inherited

QUIET = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""No service and no client sends telemetry."""

# The user's own accounts: they must not reach a local server, and would take precedence over its own.
PREFECT_ACCOUNT = ("PREFECT_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_PROFILE")
MLFLOW_ACCOUNT = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN")
AWS_ACCOUNT = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_ENDPOINT_URL",
)


def environment(status: StackStatus) -> dict[str, str]:
    """The variables with which a client finds the running services, and their password.

    They must be set before prefect is imported, which reads its settings then.
    """
    found = {**QUIET, "TROUPE_HOME": str(status.home)}
    if status.prefect:
        found |= {
            "PREFECT_API_URL": status.prefect.api_url,
            "PREFECT_API_AUTH_STRING": ensure_password(status.home),
            "PREFECT_HOME": str(prefect_home(status.home)),
            "PREFECT_LOGGING_EXTRA_LOGGERS": "components,tasks,flows",
            # Threads beside a flow (the outbox) log too, and belong to no flow run.
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
            "AWS_SHARED_CREDENTIALS_FILE": str(credentials_file(status.home)),
            "AWS_DEFAULT_REGION": REGION,
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    return found


def exports(status: StackStatus) -> str:
    """Shell lines with which the owner's clients find the running services and log in.

    The user's own accounts are unset where they would take precedence.
    """
    groups = ((PREFECT_ACCOUNT, status.prefect), (MLFLOW_ACCOUNT, status.mlflow), (AWS_ACCOUNT, status.s3))
    found = {**environment(status), **without_proxy(os.environ)}
    hidden = [name for names, service in groups if service for name in names if name not in found]
    unset = [f"unset {' '.join(hidden)}"] if hidden else []
    return "\n".join([*unset, *(f"export {name}={shlex.quote(value)}" for name, value in found.items())])


def service_environment(own: Mapping[str, str]) -> dict[str, str]:
    """The environment of a service: what it may inherit from this process, plus `own`.

    PYTHONDONTWRITEBYTECODE goes too: without compiled files every start imports twice as long.
    """
    kept = inherited(os.environ)
    # The folder of this environment's programs; sys.executable is not resolved, or it would leave the environment.
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": path, **without_proxy(kept), **QUIET, "PYTHONUNBUFFERED": "1", **own}


def without_proxy(env: Mapping[str, str]) -> dict[str, str]:
    """NO_PROXY, in both spellings, that keeps requests to this machine off any proxy and what `env` says of others."""
    known = [host for host in (env.get("NO_PROXY") or env.get("no_proxy") or "").split(",") if host]
    value = ",".join(dict.fromkeys([*known, LOOPBACK, "localhost"]))
    return {"NO_PROXY": value, "no_proxy": value}
