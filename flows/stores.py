"""The store that a reading command means."""

from pathlib import Path
from urllib.parse import urlparse

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import ConfigurationError
from flows.preflight import probe_store
from flows.services.client import join_local_services


def opened_store(uri: str | None) -> ArtifactStore:
    """The store at `uri`, or the local services' bucket. Raises ConfigurationError for a scheme that is not known."""
    join_local_services()
    config = store_config(uri) if uri else StoreConfig()
    if config.kind == "local" and not Path(str(config.root)).is_dir():
        raise ConfigurationError(f"--store {uri!r}: there is no such directory")
    return probe_store(config)


def store_config(uri: str) -> StoreConfig:
    """A store's configuration from its address.

    **Example** `s3://models/team` is bucket "models", prefix "team"; `file:///data/runs` is the directory /data/runs.
    """
    parsed = urlparse(uri)
    if parsed.scheme == "file" and parsed.path:
        return StoreConfig(kind="local", root=parsed.path)
    if parsed.scheme == "s3" and parsed.netloc:
        return StoreConfig(kind="s3", bucket=parsed.netloc, prefix=parsed.path.strip("/"))
    raise ConfigurationError(f"--store {uri!r}: write file:///absolute/path or s3://bucket/prefix")
