"""Starts services unless they run, waits for them, stops them with all they started."""

import re
import time
from collections.abc import Collection, Mapping, MutableMapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from components.artifacts.parallel import in_parallel
from components.errors import ServiceMissing
from infra.services.environment import service_environment
from infra.services.loopback import choose_ports
from infra.services.process import ProcessRecord, is_alive, listens_on, read_record, start, stop, write_record
from infra.services.service import NotReady, Ports, PortTaken, Service

NUM_STARTS = 5
"""How often a server is started before it counts as one that finds no free port."""
_TAKEN = re.compile(r"address (is )?already in use|EADDRINUSE|\[Errno (98|48)\]", re.IGNORECASE)


def mark_of(home: Path, name: str) -> str:
    """The mark that all processes of a service carry in their environment."""
    return f"{name}@{home}"


def ports_of(home: Path, server: Service, reserved: ExitStack) -> dict[str, int]:
    """The ports of a running service, or free ones, reserved: those of its last start, else preferred ones, else any."""
    record = read_record(home, server.name)
    if record and is_alive(record):
        return dict(record.ports)
    return choose_ports(record.ports if record else {}, server.ports, reserved=reserved)


def start_all(home: Path, servers: Collection[Service], ports: MutableMapping[str, Ports]) -> None:
    """Start `servers` unless they run, and return when all serve. Raises ServiceMissing; the others stay up.

    Between a look at a port and its use by a server another program may take it. Such a server gets other ports, also in
    `ports`, and those that were told its old ones are started again.
    """
    for starts_left in reversed(range(NUM_STARTS)):
        for server in servers:
            ensure_started(home, server, ports)
        taken = [each for each in in_parallel(partial(_find_taken_port, home), servers) if each is not None]
        if not taken:
            return
        if not starts_left:
            raise ServiceMissing(f"{taken[0][1]}, at each of {NUM_STARTS} starts; give the command again")
        ports.update({server.name: choose_ports(server.ports) for server, _ in taken})


def _find_taken_port(home: Path, server: Service) -> tuple[Service, PortTaken] | None:
    """None once the server serves; itself and the error if one of its ports is another program's."""
    try:
        wait_until_ready(home, server)
    except PortTaken as error:
        return server, error
    return None


def ensure_started(home: Path, server: Service, ports: Mapping[str, Ports]) -> None:
    """Start `server` on its ports unless it runs from an equal launch; stop what is left of an earlier start."""
    own_ports = ports.get(server.name, {})
    launch = server.launch(home, own_ports, ports)
    record = read_record(home, server.name)
    if record is not None:
        if is_alive(record) and record.launch_digest == launch.digest:
            return
        stop_service(home, record, type(server))
    log = home / "logs" / f"{server.name}.log"
    log_start = log.stat().st_size if log.exists() else 0
    env = service_environment(launch.env)
    process = start(launch.command, env=env, log=log, cwd=launch.cwd, mark=mark_of(home, server.name))
    started = ProcessRecord(
        name=server.name,
        pid=process.pid,
        process=str(process),
        command=launch.command,
        log=log,
        log_start=log_start,
        ports=own_ports,
        launch_digest=launch.digest,
    )
    write_record(home, started)


def wait_until_ready(home: Path, server: Service) -> None:
    """Return when it serves. Raises ServiceMissing with the end of its log if it ends or takes too long, PortTaken."""
    record = read_record(home, server.name)
    assert record is not None, f"{server.name} was started without a record"
    deadline = time.monotonic() + server.start_timeout_seconds
    while True:
        try:
            server.check(home, record.ports)
            if listens_on(record.pid, record.ports):
                return
            why = "another program answers on its port"
        except (NotReady, OSError) as error:
            why = str(error)
        is_over = not is_alive(record)
        if record.ports and names_taken_port(record.log, record.log_start):
            stop_service(home, record, type(server))
            raise PortTaken(f"{server.name} found a port of {dict(record.ports)} in use")
        if is_over:
            raise _did_not_come_up(record, "it ended")
        if time.monotonic() > deadline:
            stop_service(home, record, type(server))
            raise _did_not_come_up(record, f"{why} after {server.start_timeout_seconds:.0f} s")
        time.sleep(0.1)


def stop_all(home: Path, kinds: Mapping[str, type[Service]]) -> list[str]:
    """Stop these services at once; the names of those that ran."""
    records = [record for name in kinds if (record := read_record(home, name)) is not None]
    running = [record.name for record in records if is_alive(record)]
    in_parallel(lambda record: stop_service(home, record, kinds[record.name]), records)
    return running


def stop_service(home: Path, record: ProcessRecord, kind: type[Service]) -> None:
    """End the service and every process that carries its mark."""
    stop(record, mark=mark_of(home, record.name), grace_seconds=kind.grace_seconds)
    kind.clean(record.ports)


def names_taken_port(log: Path, log_start: int = 0) -> bool:
    """Whether a server's log says, from the byte `log_start` on, that an address is in use."""
    with log.open("rb") as file:
        file.seek(log_start)
        return _TAKEN.search(file.read().decode(errors="replace")) is not None


def end_of_log(log: Path) -> str:
    """The last lines of a log, for an error message."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    return f"The end of {log}:\n" + "\n".join(f"  {line}" for line in lines)


def _did_not_come_up(record: ProcessRecord, why: str) -> ServiceMissing:
    return ServiceMissing(f"{record.name} did not come up: {why}. {end_of_log(record.log)}")
