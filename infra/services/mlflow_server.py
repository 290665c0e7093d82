"""The MLflow server: metrics in SQLite, artifacts in the local S3."""

import sys
from collections.abc import Mapping
from pathlib import Path

from infra.services.password import ensure_password
from infra.services.ports import local_url
from infra.services.seaweedfs import BUCKET, client_settings
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
        arguments = ("mlflow", str(ports["mlflow"]), str(folder / "mlflow.db"), artifacts)
        return Launch(command=(sys.executable, "-P", "-m", "infra.services.server_app", *arguments), env=env)
