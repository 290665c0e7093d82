"""The vLLM servers of this machine: started together, found again, stopped with all their processes."""

from contextlib import ExitStack
from pathlib import Path

from components.artifacts.parallel import in_parallel
from infra.services.lifecycle import ensure_started, ports_of, stop_all, wait_until_ready
from infra.services.ports import local_url
from infra.services.process import is_alive
from infra.services.records import locked, read_record
from infra.services.vllm_server import VllmService


def start_servers(home: Path, servers: list[VllmService]) -> dict[str, str]:
    """Start these servers and stop all others of `home`; name -> address, once all of them serve."""
    home = home.absolute()
    with locked(home), ExitStack() as reserved:
        wanted = {server.name for server in servers}
        stop_all(home, {name: VllmService for name in _names(home) if name not in wanted})
        for server in servers:
            ensure_started(home, server, {server.name: ports_of(home, server, reserved)})
        in_parallel(lambda server: wait_until_ready(home, server), servers)
    return vllm_addresses(home)


def down_vllm(home: Path) -> list[str]:
    """Stop all servers of `home` and everything they started; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with locked(home):
        return stop_all(home, dict.fromkeys(_names(home), VllmService))


def vllm_addresses(home: Path) -> dict[str, str]:
    """Name -> address of the servers of `home` whose process runs."""
    records = [record for name in _names(home.absolute()) if (record := read_record(home, name)) is not None]
    return {record.name: local_url(record.ports["vllm"]) for record in records if is_alive(record)}


def _names(home: Path) -> list[str]:
    """The servers that were ever started in `home`."""
    return sorted(path.stem for path in (home / "services").glob("vllm-*.json"))
