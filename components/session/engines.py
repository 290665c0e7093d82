"""A session's engines, one per policy. Their weights are a cache of a checkpoint, checked on each use."""

import threading
from contextlib import ExitStack, closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from components.config import RunConfig, TransformersGeneration
from components.errors import EngineUnavailable
from components.generation.base import Generator, Served, SignFiles
from components.generation.vllm.addresses import server_key, server_urls, serves_on_cluster, vllm_generation
from components.machine.gc_tuning import gc_paused
from components.machine.process_variables import read_variable, read_variables
from components.models.model_groups import name_served_model
from components.placement.this_machine import engine_device
from components.schema import PolicyVersion

if TYPE_CHECKING:
    from components.generation.local.base_models import BaseModels

_MOST_PAST_SELVES = 8
"""Engines kept for the past selves of a population."""


class Engines:
    """Engines by policy, opened on first use and kept until `close`."""

    def __init__(self, config: RunConfig, *, sign: SignFiles = lambda folder: (), run_id: str = "") -> None:
        """`sign` gives the files of a local folder to servers that do not see it; on a cluster servers belong to `run_id`."""
        self._run_id = run_id
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
        model = name_served_model(self._config, policy)
        if serves_on_cluster(self._config, read_variables()):
            from components.generation.vllm.cluster_servers import find_servers, spell_servers, wait_for_servers

            found = wait_for_servers(self._run_id, model, vllm_generation(self._config).vllm.start_timeout_seconds)
            if not found:
                raise EngineUnavailable(f"no vLLM server of {model!r} of run {self._run_id} is up on the cluster yet")
            key = found[0].key
            where: dict[str, Any] = {"find": lambda: spell_servers(find_servers(self._run_id, model))}
        else:
            # Validated before the import, which takes seconds, so that errors appear at once.
            where = {"urls": server_urls(self._config, read_variables())}
            key = server_key(self._config, read_variables())
        from components.generation.vllm.engine import VllmGenerator

        engine = VllmGenerator(
            vllm_generation(self._config),
            model=model,
            key=key,
            sign=self._sign,
            start_command=f"troupe up --engine vllm --preset {self._config.preset}",
            **where,
        )
        return self._ends.enter_context(closing(engine))


def list_fixed_versions(config: RunConfig) -> dict[str, PolicyVersion]:
    """Versions of the policies without a checkpoint: those behind an API."""
    from components.generation.api.chat import api_version

    return {name: api_version(name, policy.api) for name, policy in config.policies.items() if policy.api is not None}
