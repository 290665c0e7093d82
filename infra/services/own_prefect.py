"""A Prefect server of this process's own, for a run without services.

Its records are temporary. It ends with this process, however that ends, and an interruption from the terminal does not reach it
before the run has reported its end.
"""

import atexit
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from components.errors import ServiceMissing
from components.machine.child_environment import without_proxy
from components.machine.process_ids import this_process
from components.machine.scratch import scratch_folder
from infra.services.environment import (
    PrefectAddress,
    StackStatus,
    environment,
    service_environment,
    user_accounts,
)
from infra.services.lifecycle import NUM_STARTS, end_of_log, names_taken_port
from infra.services.loopback import choose_ports, local_url
from infra.services.prefect_server import PrefectService, api_url
from infra.services.process import listens_on
from infra.services.service import NotReady, Service

_GRACE_SECONDS = 5.0


class OwnPrefect:
    """The server of this process; its database, password and log are in a folder of its own."""

    def __init__(self) -> None:
        self._folder = Path(mkdtemp(prefix="prefect-", dir=scratch_folder()))
        self._log = self._folder / "prefect.log"
        self.start()
        atexit.register(self._end_with, os.getpid())

    def start(self) -> None:
        """Start it on a free port; return before it serves."""
        self._ports = choose_ports({"prefect": 0})
        launch = PrefectService().launch(self._folder, self._ports, {})
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*launch.command, str(this_process()), str(self._folder)],
                env=service_environment(launch.env),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                umask=0o077,
            )

    @property
    def is_running(self) -> bool:
        """Whether its process runs."""
        return self._process.poll() is None

    def variables(self) -> dict[str, str | None]:
        """The environment of its clients; None for a variable of the user's that they must not have."""
        address = PrefectAddress(api_url=api_url(self._ports), ui_url=local_url(self._ports["prefect"]))
        state = StackStatus(home=self._folder, prefect=address)
        found = environment(state) | without_proxy(os.environ)
        del found["TROUPE_HOME"]
        return dict.fromkeys(user_accounts(state)) | found

    def wait(self, patience_seconds: float) -> None:
        """Return when it serves, on another port if its own was taken meanwhile. Raises ServiceMissing."""
        deadline, starts_left = time.monotonic() + patience_seconds, NUM_STARTS - 1
        while (why := self._missing()) is not None:
            if not self.is_running and starts_left and names_taken_port(self._log):
                starts_left -= 1
                self.start()
                _set_variables(self.variables())
            elif not self.is_running:
                raise ServiceMissing(f"the run's own Prefect server ended. {end_of_log(self._log)}")
            elif time.monotonic() > deadline:
                raise ServiceMissing(
                    f"the run's own Prefect server did not come up within {patience_seconds:g} s "
                    f"(resources.prefect_patience_seconds): {why}. {end_of_log(self._log)}"
                )
            time.sleep(0.1)

    def _missing(self) -> str | None:
        """Why it does not serve yet; None if it does."""
        try:
            Service.check(PrefectService(), self._folder, self._ports)
        except (NotReady, OSError) as error:
            return str(error)
        return None if listens_on(self._process.pid, self._ports) else "another program answers on its port"

    def _end_with(self, owner_pid: int) -> None:
        if os.getpid() != owner_pid:
            return  # a forked process inherits the exit handlers
        self._process.terminate()
        try:
            self._process.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def own_prefect() -> Iterator[OwnPrefect]:
    """Within the block the environment names a Prefect server of this process's own. It may still be starting: `wait` for it.

    It stays until the process ends, because Prefect sends its last logs at exit; the next block uses it again.
    """
    if not _server().is_running:  # in a forked process it is none of its children
        _server.cache_clear()
    server = _server()
    before = {name: os.environ.get(name) for name in server.variables()}
    _set_variables(server.variables())
    try:
        yield server
    finally:
        _set_variables(before)


@cache
def _server() -> OwnPrefect:
    """The server of this process."""
    return OwnPrefect()


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
