"""Opens the store named by `--store`, and finds the one that a run is in."""

import os
from pathlib import Path
from urllib.parse import unquote, urlparse

from components.artifacts.base import ArtifactStore
from components.artifacts.format import check_format
from components.config import StoreConfig
from components.errors import ConfigurationError, ServiceMissing
from components.identity import check_run_id
from components.machine.home import HOME
from components.session.stores import open_store, s3_endpoint
from flows.preflight.checks import naming_local_server
from infra.services.client import join_local_services
from infra.services.process import read_record
from infra.services.stack import is_started, outage


def open_named_store(uri: str | None, run_id: str | None = None) -> ArtifactStore:
    """The store that `store_config` names, which must exist; opening it writes nothing. Raises TroupeErrors."""
    join_local_services()
    config = store_config(uri, run_id)
    if config.kind == "local" and not os.path.isdir(str(config.root)):
        raise ConfigurationError(f"--store {uri!r}: there is no such directory; name one that runs were stored in")
    store = open_store(config)
    with naming_local_server(config):
        store.check()
        check_format(store)
    return store


def store_config(uri: str | None, run_id: str | None = None) -> StoreConfig:
    """The configuration of the store at `uri`; of None that of the local services' bucket, or of the folder of runs that began
    without services: where no services are up, and where only the folder has the run `run_id`.

    **Example** `s3://models/team` is bucket "models", prefix "team"; `file:///data/runs` is the directory /data/runs.
    """
    if not uri:
        return _default_store(run_id)
    remedy = "write file:///absolute/path or s3://bucket/prefix, # as %23 and ? as %3F in the path of a folder"
    try:
        parsed = urlparse(uri)
        if "#" not in uri and "?" not in uri:
            if parsed.scheme == "file" and parsed.path and parsed.netloc in ("", "localhost"):
                return StoreConfig(kind="local", root=unquote(parsed.path))
            if parsed.scheme == "s3" and parsed.netloc:
                return StoreConfig(kind="s3", bucket=parsed.netloc, prefix=parsed.path.strip("/"))
    except ValueError as error:  # no address, or no name of a bucket
        raise ConfigurationError(f"--store {uri!r}: {remedy}; an S3 server is named by AWS_ENDPOINT_URL_S3") from error
    raise ConfigurationError(f"--store {uri!r}: {remedy}")


def own_folder() -> StoreConfig:
    """The store of runs that begin without services: a folder in Troupe's home."""
    return StoreConfig(kind="local", root=str(HOME / "store"))


def began_without_services(run_id: str) -> bool:
    """Whether the folder of runs that began without services has this run, and the local services' bucket, if it is up, not."""
    if not _has_run(own_folder(), run_id):
        return False
    return s3_endpoint() is None or not _has_run(StoreConfig(), run_id)


def list_unlisted_runs(uri: str | None) -> str | None:
    """Where other runs are than those that a listing without `--store` shows, if there are any."""
    folder = own_folder()
    if uri or not Path(str(folder.root)).is_dir():
        return None
    if s3_endpoint() is None:
        return None if read_record(HOME, "s3") is None else f"not shown are runs in S3: {outage(HOME, 's3')}"
    has_runs = any(True for _ in open_store(folder).list("runs/"))
    return f"not shown are runs that began without services: --store {open_store(folder).uri}" if has_runs else None


def is_without_services() -> bool:
    """Whether this process has joined no Prefect server, none is named, and no service of this home was started and runs."""
    return not os.environ.get("PREFECT_API_URL") and not is_started(HOME)


def _default_store(run_id: str | None) -> StoreConfig:
    folder = own_folder()
    if run_id is not None and began_without_services(run_id):
        return folder
    if s3_endpoint() is not None:
        return StoreConfig()
    is_wanted = (
        run_id is None or read_record(HOME, "s3") is None
    )  # else the run may be in the bucket of servers that are down
    if is_wanted and is_without_services() and Path(str(folder.root)).is_dir():
        return folder
    raise ServiceMissing(
        f"no store is named, and {outage(HOME, 's3')}, or name a store with --store (or TROUPE_STORE), as "
        "--store file:///absolute/path or --store s3://bucket/prefix"
    )


def _has_run(config: StoreConfig, run_id: str) -> bool:
    if config.kind == "local" and not os.path.isdir(str(config.root)):
        return False
    with naming_local_server(config):
        return any(True for _ in open_store(config).list(f"runs/{check_run_id(run_id)}/"))
