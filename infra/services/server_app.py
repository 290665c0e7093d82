"""Runs the Prefect or the MLflow server behind the guard; the commands of their packages accept no middleware.

    python -m infra.services.server_app prefect PORT
    TROUPE_PASSWORD=... python -m infra.services.server_app mlflow PORT DATABASE_FILE ARTIFACTS_FOLDER_OR_URI

Prefect checks the password itself. MLflow's own basic-auth app would hash it on each call and keep a second database.
"""

import os
import sys

import uvicorn

from components.gc_tuning import gc_paused
from infra.services.auth import guarded
from infra.services.mlflow_server import PASSWORD_VARIABLE, MlflowService
from infra.services.ports import LOOPBACK
from infra.services.retry_busy import RepeatingBusyRequests


def serve_prefect(port: str) -> None:
    """Serve until a signal arrives, with the settings of `prefect server start`."""
    with gc_paused():
        from prefect.server.api.server import create_app
        from prefect.settings import get_current_settings

    settings = get_current_settings().server
    assert settings.api.auth_string is not None, "the server would accept anybody"
    uvicorn.run(
        guarded(RepeatingBusyRequests(create_app(final=True))),
        host=LOOPBACK,
        port=int(port),
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )


def serve_mlflow(port: str, database_file: str, artifacts: str) -> None:
    """Serve until a signal arrives, in one process where `mlflow server` starts two."""
    with gc_paused():
        from mlflow import server
        from mlflow.server.handlers import initialize_backend_stores

    database, root = f"sqlite:///{database_file}", "mlflow-artifacts:/"
    os.environ[server.BACKEND_STORE_URI_ENV_VAR] = database
    os.environ[server.ARTIFACT_ROOT_ENV_VAR] = root
    os.environ[server.ARTIFACTS_DESTINATION_ENV_VAR] = artifacts
    os.environ[server.SERVE_ARTIFACTS_ENV_VAR] = "true"
    initialize_backend_stores(database, database, root)
    with gc_paused():
        from mlflow.server.fastapi_app import app

    guard = guarded(app, password=os.environ[PASSWORD_VARIABLE], open_path=MlflowService.health_path)
    uvicorn.run(guard, host=LOOPBACK, port=int(port), log_config=str(server._UVICORN_LOG_CONFIG))


if __name__ == "__main__":
    if sys.argv[1] == "prefect":
        serve_prefect(sys.argv[2])
    else:
        serve_mlflow(*sys.argv[2:])
