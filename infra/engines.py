"""Starts the servers of an engine for the models of a preset."""

from collections.abc import Sequence
from pathlib import Path

from components.config.generation import Generation
from components.config.variants import list_variants
from components.errors import ConfigurationError


def start_engines(home: Path, engine: str, preset: str | None, overrides: Sequence[str]) -> dict[str, str]:
    """Start the servers of `engine` for a preset's models; addresses by name, empty for the in-process engine.

    Raises ConfigurationError for an unknown engine or a missing preset, ServiceMissing when vLLM is not installed.
    """
    engines = list_variants(Generation)
    if engine not in engines:
        raise ConfigurationError(f"--engine {engine!r}: choose one of {', '.join(engines)}")
    if not engines[engine].has_servers:
        return {}
    if preset is None:
        raise ConfigurationError(f"--engine {engine} needs --preset, whose models the servers serve")
    from flows.presets import preset_config
    from infra.services.vllm_stack import up_vllm

    return up_vllm(home, preset_config(preset, [*overrides, f"generation.engine={engine}"]))
