"""The store that a reading command means."""

from pathlib import Path
from urllib.parse import urlparse

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import ConfigurationError
from flows.preflight import naming_local_server
from flows.services.client import join_local_services
from tasks import wiring


def opened_store(uri: str | None) -> ArtifactStore:
    """The store at `uri`, or the local services' bucket, once it is known to be there. Looking changes nothing in it.

    Raises ConfigurationError for a scheme that is not known and for a directory that is not there, StoreRefused for a bucket
    that is not there. Who goes on to train proves with `probe_store` that it may be written, too.
    """
    join_local_services()
    config = store_config(uri) if uri else StoreConfig()
    if config.kind == "local" and not Path(str(config.root)).is_dir():
        raise ConfigurationError(f"--store {uri!r}: there is no such directory")
    store = wiring.open_store(config)
    with naming_local_server(config):
        store.check()
    return store


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
