"""Runs the MLflow server behind the guard, with the password in TROUPE_PASSWORD.

    python -m infra.services.mlflow_app PORT DATABASE_FILE ARTIFACTS_FOLDER_OR_URI

`mlflow server` would start a second process and accepts no middleware; MLflow's own basic-auth app hashes a password on each
call and keeps users and permissions in a second database.
"""

import os
import sys

import uvicorn

from components.long_lived import long_lived
from infra.services.guard import guarded
from infra.services.mlflow_server import PASSWORD_VARIABLE, MlflowService
from infra.services.ports import LOOPBACK


def main() -> None:
    """Serve until a signal arrives."""
    with long_lived():
        from mlflow import server
        from mlflow.server.handlers import initialize_backend_stores

    _, port, database_file, artifacts = sys.argv
    database, root = f"sqlite:///{database_file}", "mlflow-artifacts:/"
    os.environ[server.BACKEND_STORE_URI_ENV_VAR] = database
    os.environ[server.ARTIFACT_ROOT_ENV_VAR] = root
    os.environ[server.ARTIFACTS_DESTINATION_ENV_VAR] = artifacts
    os.environ[server.SERVE_ARTIFACTS_ENV_VAR] = "true"
    initialize_backend_stores(database, database, root)
    with long_lived():
        from mlflow.server.fastapi_app import app

    guard = guarded(app, password=os.environ[PASSWORD_VARIABLE], open_path=MlflowService.health_path)
    uvicorn.run(guard, host=LOOPBACK, port=int(port), log_config=str(server._UVICORN_LOG_CONFIG))


if __name__ == "__main__":
    main()
