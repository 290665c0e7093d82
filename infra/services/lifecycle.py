"""Starts services unless they run, waits for them, stops them with all they started."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from components.artifacts.parallel import in_parallel
from components.errors import ServiceMissing
from infra.services.environment import service_environment
from infra.services.loopback import choose_ports
from infra.services.process import ProcessRecord, is_alive, read_record, start, stop, write_record
from infra.services.service import NotReady, Ports, Service


def mark_of(home: Path, name: str) -> str:
    """The mark that all processes of a service carry in their environment."""
    return f"{name}@{home}"


def ports_of(home: Path, server: Service, reserved: ExitStack) -> dict[str, int]:
    """The ports of a running service, or free ones, reserved: those of its last start, else preferred ones, else any."""
    record = read_record(home, server.name)
    if record and is_alive(record):
        return dict(record.ports)
    return choose_ports(record.ports if record else {}, server.ports, reserved=reserved)


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
    env = service_environment(launch.env)
    process = start(launch.command, env=env, log=log, cwd=launch.cwd, mark=mark_of(home, server.name))
    started = ProcessRecord(
        name=server.name,
        pid=process.pid,
        process=str(process),
        command=launch.command,
        log=log,
        ports=own_ports,
        launch_digest=launch.digest,
    )
    write_record(home, started)


def wait_until_ready(home: Path, server: Service) -> None:
    """Return when it serves. Raises ServiceMissing with the end of its log if it ends or takes too long."""
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
                stop_service(home, record, type(server))
                raise _did_not_come_up(record, f"{error} after {server.start_timeout_seconds:.0f} s") from error
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


def _did_not_come_up(record: ProcessRecord, why: str) -> ServiceMissing:
    lines = record.log.read_text(errors="replace", encoding="utf-8").splitlines()[-15:]
    tail = "\n".join(f"  {line}" for line in lines)
    return ServiceMissing(f"{record.name} did not come up: {why}. The end of {record.log}:\n{tail}")
