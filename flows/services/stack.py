"""The local services as one: up, down, status, and the deployments on top of them."""

import subprocess
import sys
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from components.errors import ConfigurationError, ServiceMissing
from components.sandbox.engine import stop_engine
from flows.services.environment import environment, service_environment
from flows.services.mlflow_server import MlflowService, url_of
from flows.services.ports import choose_ports
from flows.services.prefect_server import POOL, WORKER_NAME, PrefectService, WorkerService, api_url, ui_url
from flows.services.process import ProcessRecord, is_alive, start, stop
from flows.services.records import locked, read_record, write_record
from flows.services.seaweedfs import BUCKET, SeaweedService, endpoint_of
from flows.services.service import NotReady, Service
from flows.services.status import MlflowAddress, PrefectAddress, S3Address, StackStatus, WorkerState

ALL = ("s3", "mlflow", "prefect", "worker")
Ports = Mapping[str, Mapping[str, int]]


def up(home: Path, *, only: Collection[str] = ALL) -> StackStatus:
    """Start what of `only` does not run, all at once, and return when everything serves. Again is harmless.

    A service whose address or settings have changed since it was started is started anew. Data stays in `home`. Raises
    ServiceMissing, naming the log file, when one does not come up; the others stay up.
    """
    home = home.absolute()
    _check_names(only)
    with locked(home), ExitStack() as reserved:
        servers: list[Service] = [
            server for server in (SeaweedService(), MlflowService(), PrefectService()) if server.name in only
        ]
        ports = _running_ports(home) | {server.name: _ports(home, server, reserved) for server in servers}
        for server in servers:
            _ensure_started(home, server, ports)
        with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
            waits = [pool.submit(_wait_until_ready, home, server) for server in servers]
            if "worker" in only:
                waits[-1].result()  # Prefect is the last server
                worker = WorkerService(environment(_addresses(home, ports)), ports["prefect"])
                _ensure_started(home, worker, ports)
                _wait_until_ready(home, worker)
            for wait in waits:
                wait.result()
    return status(home)


def down(home: Path) -> list[str]:
    """Stop the services of `home`, all that they started, and the sandbox's private engine; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with locked(home):
        records = [record for name in reversed(ALL) if (record := read_record(home, name)) is not None]
        running = [record.name for record in records if is_alive(record)]
        with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
            list(pool.map(partial(_stop, home), records))
    return [*running, *(["container engine"] if stop_engine(home / "sandbox") else [])]


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


def deploy(state: StackStatus, root: Path) -> None:
    """Create or renew every deployment of `root`/prefect.yaml. Raises ServiceMissing or ConfigurationError."""
    if state.prefect is None:
        raise ServiceMissing("the Prefect server is down; start it with `troupe up`")
    command = [sys.executable, "-m", "prefect", "--no-prompt", "deploy", "--all"]
    env = service_environment(environment(state))
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=300, check=False)
    if done.returncode:
        raise ConfigurationError(f"prefect.yaml could not be deployed:\n{(done.stdout + done.stderr)[-3000:]}")


def mark_of(home: Path, name: str) -> str:
    """What all processes of a service carry in their environment."""
    return f"{name}@{home}"


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


def _ports(home: Path, server: Service, reserved: ExitStack) -> dict[str, int]:
    """The ports of a running service, or free ones: those of its last start, else its own, else any."""
    record = read_record(home, server.name)
    if record and is_alive(record):
        return dict(record.ports)
    return choose_ports(record.ports if record else {}, server.ports, reserved=reserved)


def _ensure_started(home: Path, server: Service, ports: Ports) -> None:
    own_ports = ports.get(server.name, {})
    launch = server.launch(home, own_ports, ports)
    record = read_record(home, server.name)
    if record is not None:
        if is_alive(record) and record.launch_digest == launch.digest:
            return
        _stop(home, record)
    mark = mark_of(home, server.name)
    log = home / "logs" / f"{server.name}.log"
    env = service_environment(launch.env)
    pid, started_at = start(launch.command, env=env, log=log, cwd=Path.cwd(), mark=mark)
    write_record(
        home,
        ProcessRecord(
            name=server.name,
            pid=pid,
            started_at=started_at,
            command=launch.command,
            log=log,
            ports=own_ports,
            launch_digest=launch.digest,
        ),
    )


def _wait_until_ready(home: Path, server: Service) -> None:
    record = read_record(home, server.name)
    assert record is not None, f"{server.name} was started without a record"
    deadline = time.monotonic() + server.start_timeout_seconds
    while True:
        try:
            return server.check(home, record.ports)
        except (NotReady, OSError) as error:
            if not is_alive(record):
                raise _did_not_come_up(record, "it ended") from error
            if time.monotonic() > deadline:
                _stop(home, record)
                raise _did_not_come_up(record, f"{error} after {server.start_timeout_seconds:.0f} s") from error
        time.sleep(0.1)


def _did_not_come_up(record: ProcessRecord, why: str) -> ServiceMissing:
    lines = record.log.read_text(errors="replace").splitlines()[-15:]
    tail = "\n".join(f"  {line}" for line in lines)
    return ServiceMissing(f"{record.name} did not come up: {why}. The end of {record.log}:\n{tail}")


def _serving(home: Path, name: str) -> ProcessRecord | None:
    """The record of a service that runs and answers."""
    record = read_record(home, name)
    if record is None or not is_alive(record) or not _service(name).serves(record.ports):
        return None
    return record


def _stop(home: Path, record: ProcessRecord) -> None:
    server = _service(record.name)
    stop(record, mark=mark_of(home, record.name), grace_seconds=server.grace_seconds)
    server.clean(home, record.ports)
