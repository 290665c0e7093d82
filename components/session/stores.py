"""Opens stores by configuration. Endpoint and region come from the configuration, else from AWS's variables."""

from pathlib import Path

from components.artifacts.base import ArtifactStore
from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from components.machine.process_variables import read_variable


def open_store(config: StoreConfig) -> ArtifactStore:
    """The store of a configuration, without reading or writing."""
    if config.kind == "local":
        return LocalArtifactStore(Path(str(config.root)).expanduser().absolute())
    from components.artifacts.s3 import S3ArtifactStore

    return S3ArtifactStore(
        config.bucket,
        prefix=config.prefix,
        endpoint_url=store_endpoint(config),
        region=config.region or read_variable("AWS_REGION"),
        addressing=config.addressing,
        retry_seconds=config.patience_seconds,
    )


def store_endpoint(config: StoreConfig) -> str | None:
    """The address of a store's server; None for AWS's own, and for a folder."""
    return None if config.kind == "local" else config.endpoint_url or s3_endpoint()


def s3_endpoint() -> str | None:
    """The S3 endpoint in the environment; None means AWS."""
    return read_variable("AWS_ENDPOINT_URL_S3") or read_variable("AWS_ENDPOINT_URL")
