"""The vLLM servers of this machine: started together for a configuration, found again, stopped with all their processes."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path

from components.config import RunConfig
from components.generation.vllm.addresses import vllm_generation
from components.generation.vllm.launch import ServedModel, check_head_size, vllm_python
from components.identity import fingerprint
from components.models.model_groups import name_served_models
from components.placement.fit import memory_fraction
from components.placement.plan import Plan, Worker
from components.placement.this_machine import plan_here
from infra.services.lifecycle import ports_of, start_all, stop_all
from infra.services.loopback import local_url
from infra.services.process import is_alive, lock_home, read_record
from infra.services.service import Ports
from infra.services.vllm_server import VllmService


def up_vllm(home: Path, config: RunConfig) -> dict[str, str]:
    """Start the servers of each model of `config` unless they run, and stop others; name -> address, once all serve.

    Raises ServiceMissing if vLLM is not installed or does not come up, ConfigurationError if it cannot serve the model.
    """
    generation = vllm_generation(config)
    if generation.server_urls:
        return {f"vllm-{index}": url for index, url in enumerate(generation.server_urls)}
    vllm_python()
    home = home.absolute()
    here = plan_here(config)
    by_name = {name: _model(home, config, name, policies) for name, policies in name_served_models(config).items()}
    for model in by_name.values():
        check_head_size(model.folder, generation.device)
    numbers = count()
    return start_servers(
        home,
        [
            [
                VllmService(next(numbers), _place(config, here, by_name[engine.model], engine), generation)
                for engine in group
            ]
            for group in here.group_starts()
        ],
    )


def start_servers(home: Path, groups: Sequence[Sequence[VllmService]]) -> dict[str, str]:
    """Start these servers, one group after another, and stop all others of `home`; name -> address, once all of them serve."""
    home = home.absolute()
    servers = [server for group in groups for server in group]
    with lock_home(home), ExitStack() as reserved:
        wanted = {server.name for server in servers}
        stop_all(home, {name: VllmService for name in _names(home) if name not in wanted})
        ports: dict[str, Ports] = {server.name: ports_of(home, server, reserved) for server in servers}
        for group in groups:
            start_all(home, group, ports)
    return vllm_addresses(home)


def down_vllm(home: Path) -> list[str]:
    """Stop all servers of `home` and everything they started; the names of those that ran."""
    home = home.absolute()
    if not home.exists():
        return []
    with lock_home(home):
        return stop_all(home, dict.fromkeys(_names(home), VllmService))


def vllm_addresses(home: Path) -> dict[str, str]:
    """Name -> address of the servers of `home` whose process runs."""
    records = [record for name in _names(home.absolute()) if (record := read_record(home, name)) is not None]
    return {record.name: local_url(record.ports["vllm"]) for record in records if is_alive(record)}


def _names(home: Path) -> list[str]:
    """The servers that were ever started in `home`."""
    return sorted(path.stem for path in (home / "services").glob("vllm-*.json"))


def _place(config: RunConfig, here: Plan, model: ServedModel, engine: Worker) -> ServedModel:
    """`model` on the devices of one of its engines."""
    devices = tuple(device.name for device in here.list_devices(engine))
    return replace(model, devices=devices, memory_fraction=memory_fraction(config, here, engine))


def _model(home: Path, config: RunConfig, name: str, policies: tuple[str, ...]) -> ServedModel:
    """A model folder with the right shape; the first refresh replaces its weights."""
    from components.session.scenario import scenario_of

    settings = config.policies[policies[0]]
    scenario = scenario_of(config)
    alphabet = scenario.family.alphabet(scenario.options)
    shape = settings.model_dump(mode="json", include={"base", "tiny"})
    folder = home / "vllm" / "models" / fingerprint([shape, alphabet])
    if not folder.exists():
        from components.models.loading import prepare_model_folder

        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        prepare_model_folder(settings, alphabet=alphabet, seed=0, into=unfinished)
        unfinished.rename(folder)
    ranks = [adapter.rank for policy in policies if (adapter := config.policies[policy].adapter)]
    if not ranks or vllm_generation(config).vllm.merge_adapters:
        return ServedModel(name=name, folder=folder)
    return ServedModel(name=name, folder=folder, num_adapters=len(ranks), max_rank=max(ranks))
