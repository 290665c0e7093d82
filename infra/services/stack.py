"""All local services together: up, down, status, and the deployments on them."""

import subprocess
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from components.artifacts.parallel import in_parallel
from components.errors import ConfigurationError, PrefectUnavailable, ServiceMissing
from components.sandbox.daemon import stop_daemon
from infra.services.environment import (
    MlflowAddress,
    PrefectAddress,
    S3Address,
    StackStatus,
    WorkerState,
    environment,
    service_environment,
)
from infra.services.lifecycle import ensure_started, ports_of, stop_all, wait_until_ready
from infra.services.loopback import local_url
from infra.services.mlflow_server import MlflowService
from infra.services.prefect_server import POOL, WORKER_NAME, PrefectService, WorkerService, api_url, prefect_command
from infra.services.process import ProcessRecord, is_alive, locked, read_record
from infra.services.seaweedfs import BUCKET, SeaweedService
from infra.services.service import Ports, Service

_KINDS: Mapping[str, type[Service]] = {
    "s3": SeaweedService,
    "mlflow": MlflowService,
    "prefect": PrefectService,
    "worker": WorkerService,
}
ALL = tuple(_KINDS)
DEPLOY_SECONDS = 900.0
"""Of all deployments at once, which take about ten on an idle machine."""


def up(home: Path, *, only: Collection[str] = ALL) -> StackStatus:
    """Start those of `only` that do not run or whose settings have changed; return when all serve.

    Raises ServiceMissing with the log file of a service that does not come up; the others stay up.
    """
    home = home.absolute()
    assert set(only) <= set(ALL), f"services {only}: choose from {', '.join(ALL)}"
    assert "prefect" in only or "worker" not in only, (
        "the worker takes its runs from the local Prefect server: start both"
    )
    with locked(home), ExitStack() as reserved:
        servers: list[Service] = [
            server for server in (SeaweedService(), MlflowService(), PrefectService()) if server.name in only
        ]
        ports = {record.name: record.ports for record in _running(home)}
        ports |= {server.name: ports_of(home, server, reserved) for server in servers}
        for server in servers:
            ensure_started(home, server, ports)
        with ThreadPoolExecutor(max_workers=len(ALL)) as pool:
            waits = [pool.submit(wait_until_ready, home, server) for server in servers]
            if "worker" in only:
                waits[-1].result()  # Prefect is the last server
                worker = WorkerService(environment(_addresses(home, ports)), ports["prefect"])
                ensure_started(home, worker, ports)
                wait_until_ready(home, worker)
            for wait in waits:
                wait.result()
    return status(home)


def down(home: Path) -> list[str]:
    """Stop the services of `home`, all they started, and the sandbox's private daemon; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with locked(home):
        stopped = stop_all(home, {name: _KINDS[name] for name in reversed(ALL)})
    return [*stopped, *(["Docker daemon"] if stop_daemon(home / "sandbox") else [])]


def status(home: Path) -> StackStatus:
    """Which services run and answer. Takes milliseconds; changes nothing."""
    home = home.absolute()
    running = _running(home)
    serving = in_parallel(lambda record: _KINDS[record.name].serves(record.ports), running)
    found = {record.name: record for record, serves in zip(running, serving, strict=True) if serves}
    worker = found.get("worker")
    state = _addresses(home, {name: record.ports for name, record in found.items()})
    if worker is None:
        return state
    return state.model_copy(update={"worker": WorkerState(pool=POOL, name=WORKER_NAME, pid=worker.pid)})


def deploy(state: StackStatus, prefect_yaml: Path) -> None:
    """Create or update every deployment of a `prefect.yaml` to run here.

    Raises ServiceMissing, ConfigurationError, or PrefectUnavailable where that takes more than DEPLOY_SECONDS.
    """
    if state.prefect is None:
        raise ServiceMissing("the Prefect server is down; start it with `troupe up`")
    command = prefect_command("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(prefect_yaml))
    env = service_environment(environment(state))
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=DEPLOY_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise PrefectUnavailable(
            f"the deployments of {prefect_yaml} were not created within {DEPLOY_SECONDS:.0f} s: this machine is too busy; "
            "give the command again"
        ) from error
    if done.returncode:
        raise ConfigurationError(f"prefect.yaml could not be deployed:\n{(done.stdout + done.stderr)[-3000:]}")


def _addresses(home: Path, ports: Mapping[str, Ports]) -> StackStatus:
    """The addresses of the servers in `ports`."""
    s3, mlflow, prefect = (ports.get(name) for name in ("s3", "mlflow", "prefect"))
    return StackStatus(
        home=home,
        s3=S3Address(endpoint=local_url(s3["s3"]), bucket=BUCKET) if s3 else None,
        mlflow=MlflowAddress(url=local_url(mlflow["mlflow"])) if mlflow else None,
        prefect=PrefectAddress(api_url=api_url(prefect), ui_url=local_url(prefect["prefect"])) if prefect else None,
    )


def _running(home: Path) -> list[ProcessRecord]:
    """The records of all services whose process runs."""
    return [record for name in ALL if (record := read_record(home, name)) and is_alive(record)]
