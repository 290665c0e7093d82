"""The addresses of the local services, as `troupe status` reports them."""

from pathlib import Path
from typing import Any

from components.frozen import Frozen


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
