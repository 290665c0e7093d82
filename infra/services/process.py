"""A background process in its own session, with a log file and a record by which a later command finds it.

Records are JSON files in the home folder, one a service, changed under a lock.

Pids are reused, so a process is ours only if its start matches the record, or if it carries our mark in its environment;
the mark also finds children that outlived their parent.
"""

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import psutil

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.machine.home import is_of_another
from components.machine.process_ids import ProcessId, collect, left_running, process_of
from infra.services.secrets import write_private

MARK = "TROUPE_SERVICE"
_KILL_SECONDS = 10.0
_PRIVATE = ("decisions", "errors", "logs", "mlflow", "prefect", "runs", "s3", "services", "store", "vllm")


class ProcessRecord(Frozen):
    """The record of a started service. `launch_digest` changes with its command or environment."""

    name: str
    pid: int
    process: str
    """Its ProcessId."""
    command: tuple[str, ...]
    log: Path
    log_start: int = 0
    """The length of the log before this start."""
    ports: Mapping[str, int]
    launch_digest: str


def start(command: Iterable[str], *, env: Mapping[str, str], log: Path, cwd: Path, mark: str) -> ProcessId:
    """Start `command` in its own session, with output to `log`. Its files are private; its children inherit `mark`."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(log, "ab", opener=partial(os.open, mode=0o600)) as output:
        child = subprocess.Popen(
            list(command),
            env={**env, MARK: mark},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            umask=0o077,
        )
    return left_running(child)


def is_alive(record: ProcessRecord) -> bool:
    """Whether the process of `record` runs and is not a zombie."""
    process = _the_process(record)
    return process is not None and _runs(process)


def listens_on(pid: int, ports: Mapping[str, int]) -> bool:
    """Whether the process or one that it started listens on all of `ports`: an answer on one may be another program's."""
    with suppress(psutil.NoSuchProcess):
        leader = psutil.Process(pid)
        found: set[int] = set()
        for process in (leader, *leader.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                connections = process.net_connections("tcp")
                found |= {each.laddr.port for each in connections if each.status == psutil.CONN_LISTEN}
        return found.issuperset(ports.values())
    return False


def stop(record: ProcessRecord, *, mark: str, grace_seconds: float) -> None:
    """End the process, its group and all others with `mark`: SIGTERM, SIGKILL after `grace_seconds`. A reused pid stays."""
    owned = {process.pid: process for process in find_marked(mark)}
    leader = _the_process(record)
    if leader is not None:
        owned[leader.pid] = leader
        with suppress(ProcessLookupError):
            os.killpg(record.pid, signal.SIGTERM)
    for process in owned.values():
        if leader is None or _group(process) != record.pid:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
    deadline = time.monotonic() + grace_seconds
    while any(_runs(process) for process in owned.values()) and time.monotonic() < deadline:
        collect(record.pid)
        time.sleep(0.05)
    last = list({**owned, **{late.pid: late for late in find_marked(mark)}}.values())
    for process in last:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    deadline = time.monotonic() + _KILL_SECONDS
    # A zombie counts as ended: only its parent can collect it.
    while left := [process.pid for process in last if _runs(process)]:
        if time.monotonic() >= deadline:
            raise TimeoutError(f"processes {left} still run {_KILL_SECONDS:.0f} s after SIGKILL")
        time.sleep(0.02)
    collect(record.pid)


def find_marked(mark: str) -> Iterator[psutil.Process]:
    """All running processes of this user with `mark` in their environment."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            own = process.uids().real == os.getuid() and process.pid != os.getpid()
            if own and process.environ().get(MARK) == mark and _runs(process):
                yield process


def _the_process(record: ProcessRecord) -> psutil.Process | None:
    """The process of `record`, or None if its pid is free or reused."""
    with suppress(psutil.Error, ProcessLookupError):
        process = psutil.Process(record.pid)
        return process if str(process_of(record.pid)) == record.process else None
    return None


def _runs(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    return False


def _group(process: psutil.Process) -> int | None:
    with suppress(ProcessLookupError):
        return os.getpgid(process.pid)
    return None


def read_record(home: Path, name: str) -> ProcessRecord | None:
    """The record of a service, running or not; None if it was never started here, where `home` is the copy of another one.

    Raises ConfigurationError for a record that cannot be read.
    """
    path = _record_path(home, name)
    try:
        record = ProcessRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise ConfigurationError(f"{path}: is no record of a service (was the disk full?); remove it") from error
    return None if is_of_another(home, record.log.parent.parent) else record


def write_record(home: Path, record: ProcessRecord) -> None:
    """Write a record atomically."""
    write_private(_record_path(home, record.name), record.model_dump_json(indent=1).encode())


@contextmanager
def lock_home(home: Path) -> Iterator[None]:
    """Hold the lock of the home folder, made private first; a second command waits for the first."""
    make_private(home)
    with (home / "services" / "lock").open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def make_private(home: Path) -> None:
    """Restrict the folder, created if missing, and the services' folders in it to this user. Raises ConfigurationError."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = home.stat().st_uid
    if owner != os.geteuid():
        raise ConfigurationError(
            f"{home} belongs to another user (uid {owner}); point TROUPE_HOME at a folder of your own"
        )
    # Sandboxed programs of root run as another user: they may pass through to their files, and list nothing.
    home.chmod(0o711 if owner == 0 else 0o700)
    (home / "services").mkdir(mode=0o700, exist_ok=True)
    for folder in (home / name for name in _PRIVATE):
        if folder.exists():
            folder.chmod(0o700)


def _record_path(home: Path, name: str) -> Path:
    return home / "services" / f"{name}.json"
