"""A session's engines, one per policy. Their weights are a cache of a checkpoint, checked on each use."""

import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from components.config import RunConfig, TransformersGeneration, VllmGeneration
from components.errors import ConfigurationError, ServiceMissing
from components.generation.base import Generator, Served, SignFiles
from components.machine.gc_tuning import gc_paused
from components.machine.process_variables import read_variable, read_variables
from components.models.model_groups import name_served_model
from components.placement.this_machine import engine_device
from components.schema import PolicyVersion

if TYPE_CHECKING:
    from components.generation.local.base_models import BaseModels

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


_MOST_PAST_SELVES = 8
"""Engines kept for the past selves of a population."""


class Engines:
    """Engines by policy, opened on first use and kept until `close`."""

    def __init__(self, config: RunConfig, *, sign: SignFiles = lambda folder: ()) -> None:
        """`sign` gives the files of a local folder to servers that do not see it."""
        self._config = config
        self._sign = sign
        self._made: dict[str, Generator] = {}
        self._past: dict[str, Generator] = {}
        """Of past selves, the one used last at the end."""
        self._num_past = max(_MOST_PAST_SELVES, len(config.agents))
        self._bases: BaseModels | None = None
        self._ends = ExitStack()
        self._one_at_a_time = threading.Lock()

    def of(self, policy: str) -> Generator:
        """The engine of a policy. Raises any error from opening it."""
        with self._one_at_a_time:
            if policy not in self._config.policies:
                return self._past_self(policy)
            if policy not in self._made:
                self._made[policy] = self._new(policy)
            return self._made[policy]

    def _past_self(self, player: str) -> Generator:
        """The engine of a policy's past self: of a few that take turns, the one that was used longest ago."""
        engine = self._past.pop(player, None)
        if engine is None and len(self._past) >= self._num_past:
            engine = self._past.pop(next(iter(self._past)))
        if engine is None:
            engine = self._in_process(next(iter(self._config.policies)), slot=f"past self {len(self._past)}")
        self._past[player] = engine
        return engine

    def check_servers(self) -> None:
        """Check that every policy's inference servers answer. Raises EngineUnavailable or StaleEngine."""
        for name, policy in self._config.policies.items():
            engine = self.of(name) if policy.api is None else None
            if isinstance(engine, Served):
                engine.check()

    def check_apis(self) -> None:
        """Check that every API policy is usable. Raises ServiceMissing if its SDK is missing, ConfigurationError if its
        key is."""
        for name, policy in self._config.policies.items():
            if policy.api is not None:
                self.of(name)

    def api_usage(self) -> dict[str, dict[str, float]]:
        """Requests, tokens and cost of each API policy in this session."""
        from components.generation.api.engine import ApiGenerator

        made = self._made.items()
        return {name: asdict(engine.usage) for name, engine in made if isinstance(engine, ApiGenerator)}

    def close(self) -> None:
        """Release threads, connections and memory. Servers keep running."""
        self._ends.close()
        self._made.clear()
        self._past.clear()
        self._bases = None

    def _new(self, policy: str) -> Generator:
        api = self._config.policies[policy].api
        if api is not None:
            from components.generation.api.chat import KEY_VARIABLES
            from components.generation.api.engine import open_api_generator

            key = read_variable(KEY_VARIABLES[api.provider])
            return self._ends.enter_context(closing(open_api_generator(policy, api, api_key=key)))
        return self._on_servers(policy) if self._config.generation.has_servers else self._in_process(policy)

    def _in_process(self, policy: str, *, slot: str | None = None) -> Generator:
        generation = self._config.generation
        assert isinstance(generation, TransformersGeneration), f"engine {generation.engine} samples on servers"
        with gc_paused():
            from components.generation.local.base_models import BaseModels
            from components.generation.local.engine import TransformersGenerator

        self._bases = self._bases or BaseModels()
        gpu = engine_device(self._config, name_served_model(self._config, policy))
        return TransformersGenerator(generation, self._bases, slot=slot, gpu=gpu)

    def _on_servers(self, policy: str) -> Generator:
        # Validated before the import, which takes seconds, so that errors appear at once.
        urls, key = server_urls(self._config, read_variables()), server_key(self._config, read_variables())
        from components.generation.vllm.engine import VllmGenerator

        engine = VllmGenerator(
            vllm_generation(self._config),
            model=name_served_model(self._config, policy),
            urls=urls,
            key=key,
            sign=self._sign,
            start_command=f"troupe up --engine vllm --preset {self._config.preset}",
        )
        return self._ends.enter_context(closing(engine))


def list_fixed_versions(config: RunConfig) -> dict[str, PolicyVersion]:
    """Versions of the policies without a checkpoint: those behind an API."""
    from components.generation.api.chat import api_version

    return {name: api_version(name, policy.api) for name, policy in config.policies.items() if policy.api is not None}
