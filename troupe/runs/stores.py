"""Opens the store named by `--store`."""

from pathlib import Path
from urllib.parse import unquote, urlparse

from components.artifacts.base import ArtifactStore
from components.artifacts.format import check_format
from components.config import StoreConfig
from components.errors import ConfigurationError, ServiceMissing
from components.home import HOME
from components.session.stores import open_store, s3_endpoint
from flows.preflight.checks import naming_local_server
from infra.services.client import join_local_services
from infra.services.stack import outage


def opened_store(uri: str | None) -> ArtifactStore:
    """The store at `uri` (None: the local services'), which must exist; opening it writes nothing. Raises TroupeErrors."""
    join_local_services()
    config = store_config(uri)
    if config.kind == "local" and not Path(str(config.root)).is_dir():
        raise ConfigurationError(f"--store {uri!r}: there is no such directory; name one that runs were stored in")
    store = open_store(config)
    with naming_local_server(config):
        store.check()
        check_format(store)
    return store


def store_config(uri: str | None) -> StoreConfig:
    """The configuration of the store at `uri`, or of the local services' bucket.

    **Example** `s3://models/team` is bucket "models", prefix "team"; `file:///data/runs` is the directory /data/runs.
    """
    if not uri and s3_endpoint() is None:
        raise ServiceMissing(
            f"no store is named, and {outage(HOME, 's3')}, or name a store with --store (or TROUPE_STORE), as "
            "--store file:///absolute/path or --store s3://bucket/prefix"
        )
    if not uri:
        return StoreConfig()
    parsed = urlparse(uri)
    if parsed.scheme == "file" and parsed.path and parsed.netloc in ("", "localhost"):
        return StoreConfig(kind="local", root=unquote(parsed.path))
    if parsed.scheme == "s3" and parsed.netloc:
        return StoreConfig(kind="s3", bucket=parsed.netloc, prefix=parsed.path.strip("/"))
    raise ConfigurationError(f"--store {uri!r}: write file:///absolute/path or s3://bucket/prefix")
