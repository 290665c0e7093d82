"""The vLLM servers of this machine: started together, found again, stopped with every process of theirs."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from components.config import GenerationConfig
from infra.services.process import ProcessRecord, is_alive
from infra.services.records import locked, read_record
from infra.services.running import ensure_started, ports_of, stop_service, wait_until_ready
from infra.services.vllm_server import ServedModel, VllmService, url_of


def start_servers(home: Path, servers: list[VllmService]) -> dict[str, str]:
    """Start these servers, and end all others of `home`; name -> address, once all of them serve."""
    home = home.absolute()
    (home / "vllm").mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(home), ExitStack() as reserved:
        _stop([record for record in _records(home) if record.name not in {server.name for server in servers}], home)
        for server in servers:
            ports = ports_of(home, server, reserved)
            ensure_started(home, server, server.launch(home, ports, {}), ports=ports, cwd=home / "vllm")
        with ThreadPoolExecutor(max_workers=max(1, len(servers))) as pool:
            list(pool.map(lambda server: wait_until_ready(home, server), servers))
    return vllm_addresses(home)


def down_vllm(home: Path) -> list[str]:
    """Stop all servers of `home` and everything that they started; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with locked(home):
        records = _records(home)
        running = [record.name for record in records if is_alive(record)]
        _stop(records, home)
    return running


def vllm_addresses(home: Path) -> dict[str, str]:
    """The servers of `home` whose process runs, by name."""
    return {record.name: url_of(record.ports) for record in _records(home.absolute()) if is_alive(record)}


def _records(home: Path) -> list[ProcessRecord]:
    names = sorted(path.stem for path in (home / "services").glob("vllm-*.json"))
    return [record for name in names if (record := read_record(home, name)) is not None]


def _stop(records: list[ProcessRecord], home: Path) -> None:
    """Through a service that stands for any, because stopping needs neither model nor settings."""
    anyone = VllmService(0, ServedModel(name="", folder=home), GenerationConfig())
    with ThreadPoolExecutor(max_workers=max(1, len(records))) as pool:
        list(pool.map(lambda record: stop_service(home, record, anyone), records))
