"""The vLLM servers of a configuration: their models, model folders and adapter capacity."""

import shutil
from pathlib import Path

from components.config import RunConfig
from components.environments.family import scratch_alphabet
from components.identity import fingerprint
from components.session.scenario import scenario_of
from components.session.vllm_models import served_models
from infra.services.vllm_server import ServedModel, VllmService, check_head_size, vllm_python
from infra.services.vllm_stack import start_servers


def up_vllm(home: Path, config: RunConfig) -> dict[str, str]:
    """Start the servers of each model of `config` unless they run, and stop others; name -> address, once all serve.

    Raises ServiceMissing if vLLM is not installed or does not come up, ConfigurationError if it cannot serve the model.
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


def _model(home: Path, config: RunConfig, name: str, policies: tuple[str, ...]) -> ServedModel:
    """A model folder with the right shape; the first refresh replaces its weights."""
    settings = config.policies[policies[0]]
    scenario = scenario_of(config)
    alphabet = scratch_alphabet(scenario.family, scenario.options)
    shape = settings.model_dump(mode="json", include={"base", "tiny"})
    folder = home / "vllm" / "models" / fingerprint([shape, alphabet])
    if not folder.exists():
        from components.models.loading import prepare_model_folder

        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        prepare_model_folder(settings, alphabet=alphabet, seed=0, into=unfinished)
        unfinished.rename(folder)
    ranks = [adapter.rank for policy in policies if (adapter := config.policies[policy].adapter)]
    if not ranks or config.generation.vllm.merge_adapters:
        return ServedModel(name=name, folder=folder)
    return ServedModel(name=name, folder=folder, num_adapters=len(ranks), max_rank=max(ranks))
