"""Where a flow's submitted tasks run: in threads of this process, or on a Ray cluster."""

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from components.config import ResourceConfig, RunConfig, StoreConfig
from components.errors import ConfigurationError, ServiceMissing
from components.machine.scratch import socket_folder

_RAY_ANSWERS_SECONDS = 3.0
_NODE_ANSWERS_SECONDS = 60.0
_RAY_ELSEWHERE = ("auto", "local")
"""Addresses without a server: Ray is started here, or finds its own."""


def task_runner(resources: ResourceConfig) -> Any:
    """Prefect's task runner for `resources`. Raises ServiceMissing when prefect-ray is not installed."""
    if resources.runner == "ray":
        try:
            from prefect_ray import RayTaskRunner
        except ImportError as error:
            raise ServiceMissing("resources.runner ray needs prefect-ray: `pip install 'troupe[ray]'`") from error
        return RayTaskRunner(address=resources.ray_address, init_kwargs=_ray_settings(resources.ray_address))
    from flows.prefect_runtime.interruptible_flow import ThreadRunner

    return ThreadRunner(max_workers=resources.max_shards_at_once + resources.max_updates_at_once)


def _ray_settings(address: str | None) -> dict[str, Any]:
    """Keyword arguments of `ray.init`. A cluster that it starts makes sockets below a folder with a short path."""
    settings: dict[str, Any] = {"runtime_env": {"env_vars": _store_variables()}}
    if address in (None, "local") and "RAY_ADDRESS" not in os.environ and "RAY_TMPDIR" not in os.environ:
        settings["_temp_dir"] = str(socket_folder("troupe-ray") / "ray")  # which Ray opens to everybody
    return settings


def _store_variables() -> dict[str, str]:
    """The S3 endpoint for workers on other hosts. Credentials are not sent: hosts have their own."""
    names = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_REGION", "AWS_DEFAULT_REGION")
    return {name: os.environ[name] for name in names if name in os.environ}


@contextmanager
def one_cluster(config: RunConfig) -> Iterator[None]:
    """Within the block this process is connected to one Ray cluster, if the run uses Ray; all its flows share it.

    Raises ConfigurationError if a host of the cluster cannot see the run's store.
    """
    if config.resources.runner != "ray":
        yield
        return
    with task_runner(config.resources):
        check_hosts(config.store)
        yield


def check_hosts(store: StoreConfig) -> None:
    """Check that every host of the connected cluster sees a local `store`. Raises ConfigurationError with the hosts that do
    not, and ServiceMissing if one does not answer."""
    if store.kind != "local":
        return
    root = Path(str(store.root)).absolute()
    root.mkdir(parents=True, exist_ok=True)
    mark = root / f".seen-{secrets.token_hex(8)}"
    mark.touch()
    try:
        blind = hosts_without(mark)
    finally:
        mark.unlink()
    if blind:
        raise ConfigurationError(
            f"store.root {store.root!r}: {', '.join(blind)} of the Ray cluster cannot see this folder; use an S3 store "
            "(store.kind=s3), or a folder that all hosts share under one path"
        )


def hosts_without(path: Path) -> list[str]:
    """The other hosts of the connected cluster on which `path` does not exist."""
    import ray
    from ray.exceptions import GetTimeoutError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    here = socket.gethostname()
    others = [node for node in nodes if node["Alive"] and node["NodeManagerHostname"] != here]
    look = ray.remote(num_cpus=0)(os.path.exists)
    answers = [
        look.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote(str(path))
        for node in others
    ]
    try:
        seen = ray.get(answers, timeout=_NODE_ANSWERS_SECONDS)
    except GetTimeoutError as error:
        raise ServiceMissing(
            f"resources.ray_address: a node of the cluster has not answered for {_NODE_ANSWERS_SECONDS:.0f} s; look at "
            "`ray status`"
        ) from error
    return sorted({node["NodeManagerHostname"] for node, sees in zip(others, seen, strict=True) if not sees})


def check_ray(resources: ResourceConfig) -> None:
    """Check that the configured Ray cluster can be reached. Raises ConfigurationError or ServiceMissing."""
    address = resources.ray_address
    if resources.runner != "ray" or address is None or address in _RAY_ELSEWHERE:
        return
    host, port = _host_and_port(address)
    try:
        with socket.create_connection((host, port), timeout=_RAY_ANSWERS_SECONDS):
            return
    except OSError as error:
        raise ServiceMissing(
            f"resources.ray_address {address!r}: nothing answers there ({error}); start it with `ray start --head`, or leave "
            "the address out to start Ray here"
        ) from error


def _host_and_port(address: str) -> tuple[str, int]:
    """**Example** "ray://head:10001" is ("head", 10001), "10.0.0.5:6379" is ("10.0.0.5", 6379)."""
    try:
        parsed = urlsplit(address if "://" in address else f"//{address}")
        host, port = parsed.hostname, parsed.port
    except ValueError:
        host = port = None
    if not host or not port or parsed.scheme not in ("", "ray"):
        raise ConfigurationError(f"resources.ray_address {address!r}: write ray://host:port, host:port or auto")
    return host, port
