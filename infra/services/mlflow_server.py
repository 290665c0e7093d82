"""The MLflow server: metrics in SQLite, artifacts in the local S3.

    TROUPE_PASSWORD=... python -m infra.services.mlflow_server PORT DATABASE_FILE ARTIFACTS_FOLDER_OR_URI

runs it behind the guard; the command of its package accepts no middleware, and its own basic-auth app would hash the password
on each call and keep a second database.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from components.machine.gc_tuning import gc_paused
from infra.services.loopback import LOOPBACK, local_url
from infra.services.seaweedfs import BUCKET, client_settings
from infra.services.secrets import ensure_password
from infra.services.service import Launch, Ports, Service

PASSWORD_VARIABLE = "TROUPE_PASSWORD"


class MlflowService(Service):
    """One server process with one worker. Without the local S3, artifacts go to a folder."""

    name = "mlflow"
    ports: Mapping[str, int] = {"mlflow": 5000}

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """Artifacts go through the server, so a browser needs no S3 credentials."""
        folder = home / "mlflow"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        env = {
            PASSWORD_VARIABLE: ensure_password(home),
            # The job runners serve features that training does not use, and cost seven processes.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        artifacts = str(folder / "artifacts")
        if "s3" in peers:
            artifacts = f"s3://{BUCKET}/mlflow"
            env |= {"MLFLOW_S3_ENDPOINT_URL": local_url(peers["s3"]["s3"]), **client_settings(home)}
        arguments = (str(ports["mlflow"]), str(folder / "mlflow.db"), artifacts)
        return Launch(command=(sys.executable, "-P", "-m", "infra.services.mlflow_server", *arguments), env=env)


def serve_mlflow(port: str, database_file: str, artifacts: str) -> None:
    """Serve until a signal arrives, in one process where `mlflow server` starts two."""
    with gc_paused():
        import uvicorn
        from mlflow import server
        from mlflow.server.handlers import initialize_backend_stores

        from infra.services.login import Login
        from infra.services.middleware import guard_app

    database, root = f"sqlite:///{database_file}", "mlflow-artifacts:/"
    os.environ[server.BACKEND_STORE_URI_ENV_VAR] = database
    os.environ[server.ARTIFACT_ROOT_ENV_VAR] = root
    os.environ[server.ARTIFACTS_DESTINATION_ENV_VAR] = artifacts
    os.environ[server.SERVE_ARTIFACTS_ENV_VAR] = "true"
    initialize_backend_stores(database, database, root)
    with gc_paused():
        from mlflow.server.fastapi_app import app

    login = Login(title="MLflow", password=os.environ[PASSWORD_VARIABLE])
    guard = guard_app(app, login, open_path=MlflowService.health_path)
    uvicorn.run(guard, host=LOOPBACK, port=int(port), log_config=str(server._UVICORN_LOG_CONFIG))


if __name__ == "__main__":
    serve_mlflow(*sys.argv[1:])
