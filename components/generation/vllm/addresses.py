"""Which vLLM servers a configuration uses: those that it names, those of this machine, or those of its Ray cluster."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from components.config import RunConfig, VllmGeneration
from components.errors import ConfigurationError, ServiceMissing

URLS_VARIABLE = "TROUPE_VLLM_URLS"
"""The environment variable with the addresses of the local servers."""
KEY_FILE_VARIABLE = "TROUPE_VLLM_KEY_FILE"
"""The environment variable with the path of those servers' key, for servers and clients."""


def vllm_generation(config: RunConfig) -> VllmGeneration:
    """The engine's settings of a configuration with engine vllm."""
    assert isinstance(config.generation, VllmGeneration), f"engine {config.generation.engine} has no servers"
    return config.generation


def server_urls(config: RunConfig, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses of the servers, from the configuration or else from `environment`."""
    return vllm_generation(config).server_urls or tuple(filter(None, environment.get(URLS_VARIABLE, "").split(",")))


def serves_on_cluster(config: RunConfig, environment: Mapping[str, str]) -> bool:
    """Whether the run's servers are actors of its Ray cluster, as no others are named."""
    has_servers = config.resources.runner == "ray" and config.generation.has_servers
    return has_servers and not server_urls(config, environment)


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
