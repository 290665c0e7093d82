"""The models that vLLM servers serve for a configuration, and the policies of each."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from components.config import RunConfig, VllmGeneration
from components.errors import ConfigurationError, ServiceMissing
from components.models.model_groups import initial_models

URLS_VARIABLE = "TROUPE_VLLM_URLS"
"""The environment variable with the addresses of the local servers."""

KEY_FILE_VARIABLE = "TROUPE_VLLM_KEY_FILE"
"""The environment variable with the path of those servers' key, for servers and clients."""


def vllm_generation(config: RunConfig) -> VllmGeneration:
    """The engine's settings of a configuration with engine vllm."""
    assert isinstance(config.generation, VllmGeneration), f"engine {config.generation.engine} has no servers"
    return config.generation


def name_served_models(config: RunConfig) -> dict[str, tuple[str, ...]]:
    """Served name -> policies. Adapters on one base share its servers, unless they are merged.

    **Example** planner and solver with adapters on "tiny": `{"planner+solver": ("planner", "solver")}`; with
    generation.vllm.merge_adapters: `{"planner": ("planner",), "solver": ("solver",)}`.
    """
    models = initial_models(config.policies)
    if not vllm_generation(config).vllm.merge_adapters:
        return models
    return {policy: (policy,) for policies in models.values() for policy in policies}


def name_served_model(config: RunConfig, policy: str) -> str:
    """The served name of a policy."""
    return next(name for name, policies in name_served_models(config).items() if policy in policies)


def server_urls(config: RunConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses of the servers, from the configuration or else from `environment`."""
    return vllm_generation(config).server_urls or tuple(filter(None, environment.get(URLS_VARIABLE, "").split(",")))


def server_key(config: RunConfig, environment: Mapping[str, str]) -> str:
    """The key of the servers of `server_urls`.

    Raises ServiceMissing if there are no servers, ConfigurationError if the key's file is not named or holds no key.
    """
    vllm = vllm_generation(config).vllm
    if not server_urls(config, environment):
        raise ServiceMissing(
            f"generation.engine vllm: no servers are known; start them with `troupe up --engine vllm --preset "
            f"{config.preset}`, or name running ones in generation.vllm.urls"
        )
    named = vllm.key_file if vllm.urls else environment.get(KEY_FILE_VARIABLE)
    if not named:
        variable = "generation.vllm.key_file" if vllm.urls else f"{KEY_FILE_VARIABLE}, beside {URLS_VARIABLE},"
        raise ConfigurationError(f"generation.engine vllm: {variable} must name the file with the servers' key")
    path = Path(named).expanduser()
    try:
        key = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"generation.engine vllm: the servers' key cannot be read: {error}") from error
    if not key or not key.isascii() or not key.isprintable():
        raise ConfigurationError(
            f"generation.engine vllm: {path} must hold one line of printable ASCII, the servers' key"
        )
    return key


def spell_urls(urls: Iterable[str], key_file: Path) -> dict[str, str]:
    """`urls` and `key_file` as environment variables; empty without urls."""
    joined = ",".join(urls)
    return {URLS_VARIABLE: joined, KEY_FILE_VARIABLE: str(key_file)} if joined else {}
