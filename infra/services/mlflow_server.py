"""The MLflow server: metrics in SQLite, artifacts in the local S3."""

import sys
from collections.abc import Mapping
from pathlib import Path

from infra.services.local_http import answers
from infra.services.password import ensure_password
from infra.services.ports import LOOPBACK
from infra.services.seaweedfs import BUCKET, REGION, credentials_file, endpoint_of
from infra.services.service import Launch, NotReady

HEALTH = "/health"
PASSWORD_VARIABLE = "TROUPE_PASSWORD"


class MlflowService:
    """One server process with one worker. Without the local S3 beside it, artifacts go to a folder."""

    name = "mlflow"
    ports: Mapping[str, int] = {"mlflow": 5000}
    start_timeout_seconds = 120.0
    grace_seconds = 5.0

    def launch(self, home: Path, ports: Mapping[str, int], peers: Mapping[str, Mapping[str, int]]) -> Launch:
        """The command; artifacts pass through the server, so that a browser needs no S3 credentials."""
        folder = home / "mlflow"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        env = {
            PASSWORD_VARIABLE: ensure_password(home),
            # Its job runners serve features that training does not use, and cost seven processes.
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        artifacts = str(folder / "artifacts")
        if "s3" in peers:
            artifacts = f"s3://{BUCKET}/mlflow"
            env |= {
                "MLFLOW_S3_ENDPOINT_URL": endpoint_of(peers["s3"]),
                "AWS_SHARED_CREDENTIALS_FILE": str(credentials_file(home)),
                "AWS_DEFAULT_REGION": REGION,
            }
        options = ("--port", str(ports["mlflow"]), "--database", str(folder / "mlflow.db"), "--artifacts", artifacts)
        return Launch(command=(sys.executable, "-P", "-m", "infra.services.mlflow_app", *options), env=env)

    def check(self, home: Path, ports: Mapping[str, int]) -> None:
        """Ask for its health."""
        if not self.serves(ports):
            raise NotReady("/health does not answer 200")

    def serves(self, ports: Mapping[str, int]) -> bool:
        """Whether it reports its health."""
        return answers(f"{url_of(ports)}{HEALTH}")

    def clean(self, home: Path, ports: Mapping[str, int]) -> None:
        """Nothing is left behind."""


def url_of(ports: Mapping[str, int]) -> str:
    """The address of its API and its pages."""
    return f"http://{LOOPBACK}:{ports['mlflow']}"
