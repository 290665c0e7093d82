"""Engines that are servers of their own: started for the models of a preset."""

from collections.abc import Sequence
from pathlib import Path

from components.errors import ConfigurationError

ENGINES = ("transformers", "vllm")


def start_engines(home: Path, engine: str, preset: str | None, overrides: Sequence[str]) -> dict[str, str]:
    """Start the servers of `engine` for a preset's models; name -> address, nothing for the engine inside the process.

    Raises ConfigurationError for an unknown engine or a missing preset, ServiceMissing when vLLM is not installed.
    """
    if engine not in ENGINES:
        raise ConfigurationError(f"--engine {engine!r}: choose one of {', '.join(ENGINES)}")
    if engine == "transformers":
        return {}
    if preset is None:
        raise ConfigurationError("--engine vllm needs --preset: servers are started for the models of one preset")
    from flows.presets import preset_config
    from infra.services.vllm_models import up_vllm

    return up_vllm(home, preset_config(preset, [*overrides, "generation.engine=vllm"]))
