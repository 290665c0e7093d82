"""Runs the MLflow server behind the guard; the password is in TROUPE_PASSWORD.

    python -m infra.services.mlflow_app --port 5000 --database FILE --artifacts FOLDER_OR_URI

`mlflow server` does the same in two processes and lets no middleware in; MLflow's own basic-auth application hashes a
password on calls and keeps users and permissions in a second database.
"""

import argparse
import os

import uvicorn

from components.long_lived import long_lived
from infra.services.guard import guarded
from infra.services.mlflow_server import HEALTH, PASSWORD_VARIABLE
from infra.services.ports import LOOPBACK


def main() -> None:
    """Serve until a signal ends it."""
    with long_lived():
        from mlflow import server
        from mlflow.server.handlers import initialize_backend_stores

    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--artifacts", required=True)
    options = parser.parse_args()
    database, root = f"sqlite:///{options.database}", "mlflow-artifacts:/"
    os.environ[server.BACKEND_STORE_URI_ENV_VAR] = database
    os.environ[server.ARTIFACT_ROOT_ENV_VAR] = root
    os.environ[server.ARTIFACTS_DESTINATION_ENV_VAR] = options.artifacts
    os.environ[server.SERVE_ARTIFACTS_ENV_VAR] = "true"
    initialize_backend_stores(database, database, root)
    with long_lived():
        from mlflow.server.fastapi_app import app

    uvicorn.run(
        guarded(app, password=os.environ[PASSWORD_VARIABLE], open_path=HEALTH),
        host=LOOPBACK,
        port=options.port,
        log_config=str(server._UVICORN_LOG_CONFIG),
    )


if __name__ == "__main__":
    main()
