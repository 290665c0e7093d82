"""Where a flow's submitted tasks run: in threads of this process, or on a Ray cluster."""

import socket
from typing import Any
from urllib.parse import urlsplit

from components.config import ResourceConfig
from components.errors import ConfigurationError, ServiceMissing

_RAY_ANSWERS_SECONDS = 3.0
_RAY_ELSEWHERE = ("auto", "local")
"""Addresses that name no server: Ray is started here, or looked for by Ray itself."""


def task_runner(resources: ResourceConfig) -> Any:
    """Prefect's task runner for `resources`. Raises ServiceMissing when prefect-ray is not installed."""
    if resources.runner == "ray":
        try:
            from prefect_ray import RayTaskRunner
        except ImportError as error:
            raise ServiceMissing("resources.runner ray needs prefect-ray: `pip install 'troupe[ray]'`") from error
        return RayTaskRunner(address=resources.ray_address)
    from flows.thread_runner import ThreadRunner

    return ThreadRunner(max_workers=resources.max_shards_at_once + resources.max_updates_at_once)


def check_ray(resources: ResourceConfig) -> None:
    """Pass when the Ray cluster that is named can be reached. Raises ConfigurationError or ServiceMissing."""
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
