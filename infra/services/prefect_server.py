"""The Prefect server, and a worker that runs deployments as processes of this machine."""

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from components.scratch import private_folder
from infra.services.local_http import answers, basic, request
from infra.services.password import ensure_password
from infra.services.ports import LOOPBACK
from infra.services.service import Launch, NotReady
from tasks.inherited import passed_on

POOL = "troupe"
WORKER_NAME = "troupe-local"


class PrefectService:
    """API, pages and scheduler in one process over SQLite. Its PREFECT_HOME is its own, so the user's stays untouched."""

    name = "prefect"
    ports: Mapping[str, int] = {"prefect": 4200}
    start_timeout_seconds = 120.0
    grace_seconds = 5.0

    def launch(self, home: Path, ports: Mapping[str, int], peers: Mapping[str, Mapping[str, int]]) -> Launch:
        """The command."""
        prefect_home(home).mkdir(mode=0o700, parents=True, exist_ok=True)
        return Launch(
            command=(sys.executable, "-P", "-m", "infra.services.prefect_app", "--port", str(ports["prefect"])),
            env={
                "PREFECT_HOME": str(prefect_home(home)),
                "PREFECT_SERVER_API_AUTH_STRING": ensure_password(home),
                "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": ui_url(ports),
                # Relative, so that its pages find it under each name of this machine and through an SSH tunnel.
                "PREFECT_UI_API_URL": "/api",
                "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
                # Task runs report three states each: a transaction for several of them, at most a second late, not for each.
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
                "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
            },
        )

    def check(self, home: Path, ports: Mapping[str, int]) -> None:
        """Ask for its health, and make sure that the work pool exists."""
        if not self.serves(ports):
            raise NotReady("/api/health does not answer 200")
        # An empty template is filled in by the first worker; a 409 says that the pool is there.
        pool = json.dumps({"name": POOL, "type": "process", "base_job_template": {}}).encode()
        status, _ = _post(home, f"{api_url(ports)}/work_pools/", pool)
        if status not in (200, 201, 409):
            raise NotReady(f"creating the work pool {POOL} gave HTTP {status}")

    def serves(self, ports: Mapping[str, int]) -> bool:
        """Whether it reports its health."""
        return answers(f"{api_url(ports)}/health")

    def clean(self, home: Path, ports: Mapping[str, int]) -> None:
        """Nothing is left behind."""


class WorkerService:
    """Takes flow runs from the work pool and runs each in a process of its own.

    `client_env` is what those processes need to find the services; what TROUPE_PASS_ENV names comes on top.
    """

    name = "worker"
    ports: Mapping[str, int] = {}
    start_timeout_seconds = 120.0
    grace_seconds = 10.0

    def __init__(self, client_env: Mapping[str, str], prefect_ports: Mapping[str, int]) -> None:
        self._client_env = client_env
        self._prefect_ports = prefect_ports

    def launch(self, home: Path, ports: Mapping[str, int], peers: Mapping[str, Mapping[str, int]]) -> Launch:
        """The command. Its TMPDIR is this user's alone: Prefect's runner keeps files there under one name for all users."""
        options = ("--pool", POOL, "--type", "process", "--name", WORKER_NAME)
        command = (sys.executable, "-P", "-m", "prefect", "--no-prompt", "worker", "start", *options)
        own = {"TMPDIR": str(private_folder("troupe-worker"))}
        return Launch(command=command, env={**passed_on(os.environ), **self._client_env, **own})

    def check(self, home: Path, ports: Mapping[str, int]) -> None:
        """Ask the server whether the worker has reported."""
        url = f"{api_url(self._prefect_ports)}/work_pools/{POOL}/workers/filter"
        status, body = _post(home, url, b"{}")
        if status != 200 or not any(worker["status"] == "ONLINE" for worker in json.loads(body)):
            raise NotReady(f"no worker of pool {POOL} is online (HTTP {status})")

    def serves(self, ports: Mapping[str, int]) -> bool:
        """A worker has no address: that its process runs is all that can be asked of it."""
        return True

    def clean(self, home: Path, ports: Mapping[str, int]) -> None:
        """Nothing is left behind."""


def prefect_command(module: str, *arguments: str) -> list[str]:
    """What runs a module of Prefect's so that Troupe's flows are found, whatever lies in the current folder."""
    return [sys.executable, "-P", "-m", "infra.services.prefect_module", module, *arguments]


def prefect_home(home: Path) -> Path:
    """Where the local Prefect keeps its database and settings."""
    return home / "prefect"


def api_url(ports: Mapping[str, int]) -> str:
    """The address that clients call."""
    return f"{ui_url(ports)}/api"


def ui_url(ports: Mapping[str, int]) -> str:
    """The address of its pages."""
    return f"http://{LOOPBACK}:{ports['prefect']}"


def _post(home: Path, url: str, body: bytes) -> tuple[int, bytes]:
    return request("POST", url, body=body, headers={"Content-Type": "application/json", **basic(ensure_password(home))})
