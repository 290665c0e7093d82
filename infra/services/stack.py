"""All local services together: up, down, status, and the deployments on them."""

import os
import subprocess
from collections.abc import Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
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
from infra.services.lifecycle import ports_of, start_all, stop_all
from infra.services.loopback import ANSWER_SECONDS, local_url
from infra.services.mlflow_server import MlflowService
from infra.services.prefect_server import POOL, WORKER_NAME, PrefectService, WorkerService, api_url, prefect_command
from infra.services.process import ProcessRecord, is_alive, lock_home, read_record
from infra.services.seaweedfs import BUCKET, SeaweedService
from infra.services.service import Ports, Service

_KINDS: Mapping[str, type[Service]] = {
    "s3": SeaweedService,
    "mlflow": MlflowService,
    "prefect": PrefectService,
    "worker": WorkerService,
}
ALL = tuple(_KINDS)
_TITLES = {"s3": "the S3 server", "mlflow": "MLflow", "prefect": "the Prefect server", "worker": "the worker"}
DEPLOY_SECONDS = 900.0
"""Of all deployments at once, which take about ten on an idle machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """Why a local service does not answer, and what helps."""

    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.reason}; {self.remedy}"


def up(home: Path, *, only: Collection[str] = ALL) -> StackStatus:
    """Start those of `only` that do not run or whose settings have changed; return when all serve.

    Raises ServiceMissing with the log file of a service that does not come up; the others stay up.
    """
    home = home.absolute()
    assert set(only) <= set(ALL), f"services {only}: choose from {', '.join(ALL)}"
    assert "prefect" in only or "worker" not in only, (
        "the worker takes its runs from the local Prefect server: start both"
    )
    with lock_home(home), ExitStack() as reserved:
        servers: list[Service] = [
            server for server in (SeaweedService(), MlflowService(), PrefectService()) if server.name in only
        ]
        ports: dict[str, Ports] = {record.name: record.ports for record in _running(home)}
        ports |= {server.name: ports_of(home, server, reserved) for server in servers}
        start_all(home, servers, ports)
        if "worker" in only:
            start_all(home, [WorkerService(environment(_addresses(home, ports)), ports["prefect"])], ports)
        # Those that were waited for are not asked again: a busy machine may not answer in time.
        return _state(
            home, [each for each in _running(home) if each.name in only or _KINDS[each.name].serves(each.ports)]
        )


def down(home: Path) -> list[str]:
    """Stop the services of `home`, all they started, and the sandbox's private daemon; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with lock_home(home):
        stopped = stop_all(home, {name: _KINDS[name] for name in reversed(ALL)})
    return [*stopped, *(["Docker daemon"] if stop_daemon(home / "sandbox") else [])]


def status(home: Path) -> StackStatus:
    """Which services run and answer. Takes milliseconds; changes nothing."""
    home = home.absolute()
    running = _running(home)
    serving = in_parallel(lambda record: _KINDS[record.name].serves(record.ports), running)
    return _state(home, [record for record, serves in zip(running, serving, strict=True) if serves])


def is_started(home: Path) -> bool:
    """Whether a process of a service runs, be it too busy to answer."""
    return bool(_running(home.absolute()))


def outage(home: Path, name: str) -> Outage:
    """Why a service that `status` does not have does not answer.

    **Example** "the Prefect server at http://127.0.0.1:4200 was started (process 12) and did not answer within 2 s, at a load
    of 9.3 on 2 cores; its log is /home/me/.troupe/logs/prefect.log".
    """
    title, record = _TITLES[name], read_record(home.absolute(), name)
    if record is None:
        return Outage(reason=f"{title} was never started in {home}", remedy="start it with `troupe up`")
    where = f"{title} at {local_url(record.ports[name])}" if record.ports else title
    if not is_alive(record):
        return Outage(reason=f"{where} is down; its log is {record.log}", remedy="start it with `troupe up`")
    waited = f"within {ANSWER_SECONDS:.0f} s, at a load of {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    return Outage(
        reason=f"{where} was started (process {record.pid}) and did not answer {waited}; its log is {record.log}",
        remedy="give the command again when the machine is less busy, or after `troupe down` and `troupe up`",
    )


def deploy(state: StackStatus, prefect_yaml: Path) -> None:
    """Create or update every deployment of a `prefect.yaml` to run here.

    Raises ServiceMissing, ConfigurationError, or PrefectUnavailable where that takes more than DEPLOY_SECONDS.
    """
    if state.prefect is None:
        raise ServiceMissing(str(outage(state.home, "prefect")))
    command = prefect_command("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", str(prefect_yaml))
    env = service_environment(environment(state))
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=DEPLOY_SECONDS, check=False, encoding="utf-8"
        )
    except subprocess.TimeoutExpired as error:
        raise PrefectUnavailable(
            f"the deployments of {prefect_yaml} were not created within {DEPLOY_SECONDS:.0f} s: this machine is too busy; "
            "give the command again"
        ) from error
    if done.returncode:
        raise ConfigurationError(f"prefect.yaml could not be deployed:\n{(done.stdout + done.stderr)[-3000:]}")


def _state(home: Path, records: Collection[ProcessRecord]) -> StackStatus:
    """The services of these records."""
    found = {record.name: record for record in records}
    worker = found.get("worker")
    state = _addresses(home, {name: record.ports for name, record in found.items()})
    if worker is None:
        return state
    return state.model_copy(update={"worker": WorkerState(pool=POOL, name=WORKER_NAME, pid=worker.pid)})


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
