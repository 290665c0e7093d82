"""The local services as one: up, down, status, and the deployments on top of them."""

import subprocess
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from components.errors import ConfigurationError, ServiceMissing
from components.sandbox.daemon import stop_daemon
from infra.services.environment import environment, service_environment
from infra.services.mlflow_server import MlflowService, url_of
from infra.services.prefect_server import (
    POOL,
    WORKER_NAME,
    PrefectService,
    WorkerService,
    api_url,
    prefect_command,
    ui_url,
)
from infra.services.process import ProcessRecord, is_alive
from infra.services.records import locked, read_record
from infra.services.running import ensure_started, mark_of, ports_of, stop_service, wait_until_ready
from infra.services.seaweedfs import BUCKET, SeaweedService, endpoint_of
from infra.services.service import Service
from infra.services.status import MlflowAddress, PrefectAddress, S3Address, StackStatus, WorkerState

__all__ = ["ALL", "deploy", "down", "mark_of", "status", "up"]
ALL = ("s3", "mlflow", "prefect", "worker")
Ports = Mapping[str, Mapping[str, int]]


def up(home: Path, *, only: Collection[str] = ALL) -> StackStatus:
    """Start what of `only` does not run, all at once, and return when everything serves. A second call is harmless.

    A service whose address or settings have changed since it was started is started anew. Data stays in `home`. Raises
    ServiceMissing, naming the log file, when one does not come up; the others stay up.
    """
    home = home.absolute()
    _check_names(only)
    with locked(home), ExitStack() as reserved:
        servers: list[Service] = [
            server for server in (SeaweedService(), MlflowService(), PrefectService()) if server.name in only
        ]
        ports = _running_ports(home) | {server.name: ports_of(home, server, reserved) for server in servers}
        for server in servers:
            _ensure_started(home, server, ports)
        with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
            waits = [pool.submit(wait_until_ready, home, server) for server in servers]
            if "worker" in only:
                waits[-1].result()  # Prefect is the last server
                worker = WorkerService(environment(_addresses(home, ports)), ports["prefect"])
                _ensure_started(home, worker, ports)
                wait_until_ready(home, worker)
            for wait in waits:
                wait.result()
    return status(home)


def down(home: Path) -> list[str]:
    """Stop the services of `home`, all that they started, and the sandbox's private daemon; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with locked(home):
        records = [record for name in reversed(ALL) if (record := read_record(home, name)) is not None]
        running = [record.name for record in records if is_alive(record)]
        with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
            list(pool.map(partial(_stop, home), records))
    return [*running, *(["Docker daemon"] if stop_daemon(home / "sandbox") else [])]


def status(home: Path) -> StackStatus:
    """Which services run and answer. Takes milliseconds; changes nothing."""
    home = home.absolute()
    with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
        found = {record.name: record for record in pool.map(partial(_serving, home), ALL) if record}
    worker = found.get("worker")
    state = _addresses(home, {name: record.ports for name, record in found.items()})
    return state.model_copy(
        update={"worker": WorkerState(pool=POOL, name=WORKER_NAME, pid=worker.pid) if worker else None}
    )


def deploy(state: StackStatus, prefect_yaml: Path) -> None:
    """Create or renew every deployment of a `prefect.yaml`, to run from the current folder.

    Raises ServiceMissing or ConfigurationError.
    """
    if state.prefect is None:
        raise ServiceMissing("the Prefect server is down; start it with `troupe up`")
    command = prefect_command("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(prefect_yaml))
    env = service_environment(environment(state))
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise ConfigurationError(f"prefect.yaml could not be deployed:\n{(done.stdout + done.stderr)[-3000:]}")


def _check_names(only: Collection[str]) -> None:
    unknown = sorted(set(only) - set(ALL))
    if unknown:
        raise ConfigurationError(f"services {unknown}: there are {', '.join(ALL)}")
    if "worker" in only and "prefect" not in only:
        raise ConfigurationError("services: the worker takes its runs from the local Prefect server; start both")


def _addresses(home: Path, ports: Ports) -> StackStatus:
    """The servers that have ports, as addresses."""
    s3, mlflow, prefect = (ports.get(name) for name in ("s3", "mlflow", "prefect"))
    return StackStatus(
        home=home,
        s3=S3Address(endpoint=endpoint_of(s3), bucket=BUCKET) if s3 else None,
        mlflow=MlflowAddress(url=url_of(mlflow)) if mlflow else None,
        prefect=PrefectAddress(api_url=api_url(prefect), ui_url=ui_url(prefect)) if prefect else None,
    )


def _service(name: str) -> Service:
    """A service by its name, for what needs no settings."""
    services: dict[str, Service] = {"s3": SeaweedService(), "mlflow": MlflowService(), "prefect": PrefectService()}
    return services.get(name) or WorkerService({}, {})


def _running_ports(home: Path) -> dict[str, dict[str, int]]:
    """The ports of all services that run, asked for or not: the others are told of them."""
    records = [record for name in ALL if (record := read_record(home, name)) and is_alive(record)]
    return {record.name: dict(record.ports) for record in records}


def _ensure_started(home: Path, server: Service, ports: Ports) -> None:
    own_ports = ports.get(server.name, {})
    launch = server.launch(home, own_ports, ports)
    ensure_started(home, server, launch, ports=own_ports, cwd=Path.cwd())


def _serving(home: Path, name: str) -> ProcessRecord | None:
    """The record of a service that runs and answers."""
    record = read_record(home, name)
    if record is None or not is_alive(record) or not _service(name).serves(record.ports):
        return None
    return record


def _stop(home: Path, record: ProcessRecord) -> None:
    stop_service(home, record, _service(record.name))
