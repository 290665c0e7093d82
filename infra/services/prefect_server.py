"""The Prefect server, and a worker that runs deployments as processes of this machine."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from components.child_environment import forwarded_variables
from components.scratch import private_folder
from infra.services.local_http import basic, request
from infra.services.password import ensure_password
from infra.services.ports import local_url
from infra.services.service import Launch, NotReady, Ports, Service

POOL = "troupe"
WORKER_NAME = "troupe-local"


class PrefectService(Service):
    """API, pages and scheduler in one process over SQLite, with a PREFECT_HOME of its own; the user's is not touched."""

    name = "prefect"
    ports: Mapping[str, int] = {"prefect": 4200}
    health_path = "/api/health"

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """The server process."""
        prefect_home(home).mkdir(mode=0o700, parents=True, exist_ok=True)
        return Launch(
            command=(sys.executable, "-P", "-m", "infra.services.server_app", "prefect", str(ports["prefect"])),
            env={
                "PREFECT_HOME": str(prefect_home(home)),
                "PREFECT_SERVER_API_AUTH_STRING": ensure_password(home),
                "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": local_url(ports["prefect"]),
                # Relative: the pages find it under every name of this machine and through an SSH tunnel.
                "PREFECT_UI_API_URL": "/api",
                # A task run reports three states: record several in one transaction, at most a second late.
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
            },
        )

    def check(self, home: Path, ports: Ports) -> None:
        """Check its health, and make sure that the work pool exists."""
        super().check(home, ports)
        # The first worker fills in an empty template; a 409 means that the pool exists.
        pool = json.dumps({"name": POOL, "type": "process", "base_job_template": {}}).encode()
        status, _ = _post(home, f"{api_url(ports)}/work_pools/", pool)
        if status not in (200, 201, 409):
            raise NotReady(f"creating the work pool {POOL} gave HTTP {status}")


class WorkerService(Service):
    """Runs each flow run of the work pool in its own process, with `client_env` and the variables listed in TROUPE_PASS_ENV."""

    name = "worker"
    grace_seconds = 10.0

    def __init__(self, client_env: Mapping[str, str], prefect_ports: Ports) -> None:
        self._client_env = client_env
        self._prefect_ports = prefect_ports

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """The worker process. Its TMPDIR is private: Prefect's runner keeps files there under one name for all users."""
        options = ("--pool", POOL, "--type", "process", "--name", WORKER_NAME)
        command = (sys.executable, "-P", "-m", "prefect", "--no-prompt", "worker", "start", *options)
        own = {"TMPDIR": str(private_folder("troupe-worker"))}
        return Launch(command=command, env={**forwarded_variables(os.environ), **self._client_env, **own})

    def check(self, home: Path, ports: Ports) -> None:
        """Ask the server whether the worker is online."""
        url = f"{api_url(self._prefect_ports)}/work_pools/{POOL}/workers/filter"
        status, body = _post(home, url, b"{}")
        if status != 200 or not any(worker["status"] == "ONLINE" for worker in json.loads(body)):
            raise NotReady(f"no worker of pool {POOL} is online (HTTP {status})")


def prefect_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a Prefect module with Troupe's flows, whatever is in the current folder."""
    return [sys.executable, "-P", "-m", "infra.services.prefect_module", module, *arguments]


def prefect_home(home: Path) -> Path:
    """The folder of the local Prefect's database and settings."""
    return home / "prefect"


def api_url(ports: Ports) -> str:
    """The address that clients call."""
    return f"{local_url(ports['prefect'])}/api"


def _post(home: Path, url: str, body: bytes) -> tuple[int, bytes]:
    return request("POST", url, body=body, headers={"Content-Type": "application/json", **basic(ensure_password(home))})
