"""The Prefect server, a worker that runs deployments as processes of this machine, and the programs of both.

    python -P -m infra.services.prefect_server serve PORT [OWNER FOLDER]
    python -P -m infra.services.prefect_server run prefect.engine

`serve` runs the server behind the guard, for which its own command has no place; with OWNER, a ProcessId, as long as that
process runs, after which FOLDER is removed. `run` runs a Prefect module, with arguments, after importing Troupe's own: Prefect
puts the current folder first on the module path to import a flow, and a user's `tasks.py` or `flows/` there would hide Troupe's
packages of the same names.
"""

import json
import os
import runpy
import sys
from collections.abc import Mapping
from pathlib import Path

from components.machine.child_environment import list_forwarded_variables
from components.machine.gc_tuning import collect_garbage_in_a_thread, gc_paused
from components.machine.process_ids import ProcessId
from components.machine.scratch import private_folder
from components.training.parent_watchdog import exit_with_parent
from infra.services.loopback import LOOPBACK, basic, local_url, request
from infra.services.secrets import ensure_password
from infra.services.service import Launch, NotReady, Ports, Service

POOL = "troupe"
WORKER_NAME = "troupe-local"
STORAGE_KEY = "prefect-password"
"""Where Prefect's pages keep the password in a browser's storage; undocumented."""


class PrefectService(Service):
    """API, pages and scheduler in one process over SQLite, with a PREFECT_HOME of its own; the user's is not touched."""

    name = "prefect"
    ports: Mapping[str, int] = {"prefect": 4200}
    health_path = "/api/health"

    def launch(self, home: Path, ports: Ports, peers: Mapping[str, Ports]) -> Launch:
        """The server process."""
        prefect_home(home).mkdir(mode=0o700, parents=True, exist_ok=True)
        return Launch(
            command=(sys.executable, "-P", "-m", "infra.services.prefect_server", "serve", str(ports["prefect"])),
            env={
                "PREFECT_HOME": str(prefect_home(home)),
                "PREFECT_SERVER_API_AUTH_STRING": ensure_password(home),
                "PREFECT_SERVER_CORS_ALLOWED_ORIGINS": local_url(ports["prefect"]),
                # Relative: the pages find it under every name of this machine and through an SSH tunnel.
                "PREFECT_UI_API_URL": "/api",
                # The generation of pages that Prefect's client links to.
                "PREFECT_SERVER_UI_V2_ENABLED": "false",
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
        return Launch(command=command, env={**list_forwarded_variables(os.environ), **self._client_env, **own})

    def check(self, home: Path, ports: Ports) -> None:
        """Ask the server whether the worker is online."""
        url = f"{api_url(self._prefect_ports)}/work_pools/{POOL}/workers/filter"
        status, body = _post(home, url, b"{}")
        if status != 200 or not any(worker["status"] == "ONLINE" for worker in json.loads(body)):
            raise NotReady(f"no worker of pool {POOL} is online (HTTP {status})")


def prefect_command(module: str, *arguments: str) -> list[str]:
    """The command that runs a Prefect module with Troupe's flows, whatever is in the current folder."""
    return [sys.executable, "-P", "-m", "infra.services.prefect_server", "run", module, *arguments]


def prefect_home(home: Path) -> Path:
    """The folder of the local Prefect's database and settings."""
    return home / "prefect"


def api_url(ports: Ports) -> str:
    """The address that clients call."""
    return f"{local_url(ports['prefect'])}/api"


def _post(home: Path, url: str, body: bytes) -> tuple[int, bytes]:
    return request("POST", url, body=body, headers={"Content-Type": "application/json", **basic(ensure_password(home))})


def serve_prefect(port: str) -> None:
    """Serve until a signal arrives, with the settings of `prefect server start`."""
    with gc_paused():
        import uvicorn
        from prefect.server.api.server import create_app
        from prefect.settings import get_current_settings

        from infra.services.busy_automations import evaluate_in_immediate_transactions
        from infra.services.login import Login
        from infra.services.middleware import RepeatingBusyRequests, guard_app

    evaluate_in_immediate_transactions()
    # An old cursor, freed on the event loop, waits for a connection that waits for another one, which waits for the event loop.
    collect_garbage_in_a_thread()
    settings = get_current_settings().server
    assert settings.api.auth_string is not None, "the server would accept anybody"
    login = Login(title="Prefect", password=settings.api.auth_string.get_secret_value(), storage_key=STORAGE_KEY)
    uvicorn.run(
        guard_app(RepeatingBusyRequests(create_app(final=True)), login),
        host=LOOPBACK,
        port=int(port),
        timeout_keep_alive=settings.api.keepalive_timeout,
        ws_ping_interval=settings.api.websocket_ping_interval,
        ws_ping_timeout=settings.api.websocket_ping_timeout,
        log_level=settings.logging_level.lower(),
    )


def run_module(module: str, *arguments: str) -> None:
    """Run `python -m module` with these arguments in this process, with Troupe's flows imported."""
    with gc_paused():
        import flows.train  # noqa: F401

    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def end_with_owner(process: str, folder: str) -> None:
    """End this process, and remove `folder`, when the process of a ProcessId's text has ended."""
    owner = ProcessId.parse(process)
    assert owner is not None, f"{process!r} is no ProcessId"
    exit_with_parent(owner, folder=Path(folder))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        if sys.argv[3:]:
            end_with_owner(*sys.argv[3:])
        serve_prefect(sys.argv[2])
    else:
        run_module(*sys.argv[2:])
