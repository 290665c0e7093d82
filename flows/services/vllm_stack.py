"""The vLLM servers of a configuration: started together, found again, stopped with every process of theirs."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from components.config import GenerationConfig, RunConfig
from components.identity import fingerprint
from flows.services.process import ProcessRecord, is_alive
from flows.services.records import locked, read_record
from flows.services.running import ensure_started, ports_of, stop_service, wait_until_ready
from flows.services.vllm_server import ServedModel, VllmService, check_head_size, url_of, vllm_python
from tasks import wiring
from tasks.served import served_models


def up_vllm(home: Path, config: RunConfig) -> dict[str, str]:
    """Start `generation.vllm.num_replicas` servers of each model of `config`; name -> address, once all of them serve.

    Servers that run already from equal settings stay; others of this home folder end. Raises ServiceMissing when vLLM is not
    installed or a server does not come up, ConfigurationError when it cannot serve the model.
    """
    if config.generation.vllm.urls:
        return {f"vllm-{index}": url for index, url in enumerate(config.generation.vllm.urls)}
    vllm_python()
    home = home.absolute()
    models = [_model(home, config, name, policies) for name, policies in served_models(config).items()]
    for model in models:
        check_head_size(model.folder, config.generation.device)
    placed = [model for model in models for _ in range(config.generation.vllm.num_replicas)]
    return start_servers(home, [VllmService(index, model, config.generation) for index, model in enumerate(placed)])


def start_servers(home: Path, servers: list[VllmService]) -> dict[str, str]:
    """Start these servers, and end all others of `home`; name -> address, once all of them serve."""
    home = home.absolute()
    (home / "vllm").mkdir(parents=True, exist_ok=True)
    with locked(home):
        _stop([record for record in _records(home) if record.name not in {server.name for server in servers}], home)
        for server in servers:
            ports = ports_of(home, server)
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


def _model(home: Path, config: RunConfig, name: str, policies: tuple[str, ...]) -> ServedModel:
    """A folder of the model's shape; its weights are replaced at the first refresh."""
    settings = config.policies[policies[0]]
    family, options = wiring.environment(config)
    alphabet = family.alphabet(options)
    shape = settings.model_dump(mode="json", include={"base", "tiny"})
    folder = home / "vllm" / "models" / fingerprint([shape, alphabet])
    if not folder.exists():
        from components.training.models import prepare_model_folder

        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        prepare_model_folder(settings, alphabet=alphabet, seed=0, into=unfinished)
        unfinished.rename(folder)
    ranks = [adapter.rank for policy in policies if (adapter := config.policies[policy].adapter)]
    if not ranks or config.generation.vllm.merge_adapters:
        return ServedModel(name=name, folder=folder)
    return ServedModel(name=name, folder=folder, num_adapters=len(ranks), max_rank=max(ranks))


def _records(home: Path) -> list[ProcessRecord]:
    names = sorted(path.stem for path in (home / "services").glob("vllm-*.json"))
    return [record for name in names if (record := read_record(home, name)) is not None]


def _stop(records: list[ProcessRecord], home: Path) -> None:
    """Through a service that stands for any, because stopping needs neither model nor settings."""
    anyone = VllmService(0, ServedModel(name="", folder=home), GenerationConfig())
    with ThreadPoolExecutor(max_workers=max(1, len(records))) as pool:
        list(pool.map(lambda record: stop_service(home, record, anyone), records))
