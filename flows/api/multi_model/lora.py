"""Adapters by their documented names: a manager of several on one base, and a scheduler that publishes their versions."""

import asyncio
import itertools
import shutil
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from components.errors import ConfigurationError, TroupeError
from components.generation.adapter_versions import newest_version, publish_adapter, read_version, version_numbers
from components.machine.freed import Freed
from components.machine.port_leases import PortLease, lease_port
from components.methods.population.served_models import Question, ServedModel, ServedPolicy
from flows.api.multi_model.configs import LLMConfig, LoRAConfig
from flows.api.multi_model.errors import loading, memory_errors
from flows.api.multi_model.fields import Count, Device, Finite, Port, Text, check_arguments
from flows.api.multi_model.llm import LLMResponse, answer_settings, local_device, response


class LoRAManager(Freed):
    """Several adapters on one base, which answer in turn or by id. Freed by `close` or a `with` block.

    **Example** `create_lora_manager({1: LoRAConfig(lora_id=1, rank=8)}, base_model="tiny").process_request("2 + 2 =")`.
    """

    @check_arguments
    def __init__(
        self,
        configs: Mapping[int, LoRAConfig],
        *,
        base_model: Text = LLMConfig.model_name,
        device: Device = "auto",
        seed: int = 0,
    ) -> None:
        """The base and its adapters are loaded by the first request. Raises ConfigurationError for what is none of these, for a
        gpu_id, since all adapters are on the base's device, and for a port, of which a manager has none."""
        if not configs:
            raise ConfigurationError("configs: none; give one LoRAConfig or more, by id")
        for key, each in configs.items():
            if key != each.lora_id:
                raise ConfigurationError(f"configs[{key!r}].lora_id {each.lora_id}: use the same number as key")
            if each.gpu_id:
                raise ConfigurationError(
                    f"configs[{key}].gpu_id {each.gpu_id}: all adapters are on one base; leave it out"
                )
            if each.port != LoRAConfig.port and not isinstance(self, DistributedLoRAScheduler):
                raise ConfigurationError(f"configs[{key}].port {each.port}: a manager has no ports; leave it out")
        self.configs, self.base_model = dict(configs), base_model
        self._device, self._seed = device, seed
        self._turns = itertools.cycle(self.configs)
        self._lock = threading.Lock()
        self._ends = ExitStack()
        self._policies: dict[int, ServedPolicy] = {}
        self._num_requests = dict.fromkeys(self.configs, 0)

    @check_arguments
    def process_request(self, prompt: Text, *, lora_id: int | None = None, **settings: Any) -> LLMResponse:
        """An answer by the next adapter in turn, or by `lora_id`.

        `settings` are instructions, max_new_tokens, temperature, stop and seed. Raises ConfigurationError for others, and
        RuntimeError "Model loading failed" and "GPU memory insufficient".
        """
        question = Question(prompt=prompt, **answer_settings(settings, "process_request"))
        chosen = next(self._turns) if lora_id is None else lora_id
        with memory_errors():
            answer = self.policy(chosen).answer(question)
        self._num_requests[chosen] += 1
        return response(answer, lora_id=chosen)

    def load(self) -> None:
        """Load the base and all adapters, if they are not.

        Raises RuntimeError "Model loading failed", and ConfigurationError for target modules that the base has not.
        """
        with self._lock, ExitStack() as opened, memory_errors():
            if self._policies:
                return
            with loading(self.base_model):
                model = opened.enter_context(ServedModel(self.base_model, device=local_device(self._device)))
            self._policies = {each: self._load_adapter(model, each) for each in self.configs}
            self._ends = opened.pop_all()

    @check_arguments
    def update_lora(self, lora_id: int, weights_path: str | Path) -> int:
        """Serve the weights in a folder of PEFT's format as the adapter's next version; its number.

        Requests go on during it. Raises ArtifactCorrupt or LogprobMismatch, and then the version before serves on.
        """
        policy = self.policy(lora_id)
        return policy.swap(adapter_folder(weights_path), policy.version.step + 1).step

    def get_status(self) -> dict[int, dict[str, Any]]:
        """Of each adapter whether it is loaded, its version, and how often it answered."""
        versions = {each: policy.version.step for each, policy in self._policies.items()}
        return {
            each: {
                "is_loaded": each in versions,
                "version": versions.get(each),
                "num_requests": self._num_requests[each],
            }
            for each in self.configs
        }

    def policy(self, lora_id: int) -> ServedPolicy:
        """The adapter as the pipeline serves it. Raises ValueError for an unknown one."""
        self._check_known(lora_id)
        self.load()
        return self._policies[lora_id]

    def close(self) -> None:
        """Free the base and its adapters."""
        self._ends.close()
        self._policies = {}

    def _check_known(self, lora_id: int) -> None:
        if lora_id not in self.configs:
            raise ConfigurationError(f"lora_id {lora_id!r}: use one of {', '.join(map(str, self.configs))}")

    def _load_adapter(self, model: ServedModel, lora_id: int) -> ServedPolicy:
        config, seed = self.configs[lora_id], self._seed + lora_id
        if config.weights_path is None:
            try:
                return model.policy(f"lora-{lora_id}", config.adapter(), seed=seed)
            except ConfigurationError as error:
                where = f"configs[{lora_id}].target_modules {config.target_modules}"
                raise ConfigurationError(f"{where}: {error}") from error
        with loading(config.weights_path):
            return model.policy(f"lora-{lora_id}", config.adapter(), seed=seed, weights=Path(config.weights_path))


class DistributedLoRAScheduler(LoRAManager):
    """A manager of adapters 1 to n, each with a reserved port, whose new weights are published, and served without a pause.

    No server listens at the ports yet: adapters answer in this process, by `process_request`.

    **Example**

        scheduler = create_distributed_lora_scheduler(base_port=8001, num_gpus=2, base_model="tiny")
        await scheduler.start()
        version = scheduler.submit_rl_update(1, reward=0.8, weights="./adapter")
        await scheduler.stop()
    """

    @check_arguments
    def __init__(
        self,
        base_port: Port = 8001,
        num_gpus: Count = 8,
        *,
        base_model: Text = LLMConfig.model_name,
        root: str | Path = "lora_ckpts",
        configs: Mapping[int, LoRAConfig] | None = None,
        **settings: Any,
    ) -> None:
        """`settings` are fields of LoRAConfig for all `num_gpus` adapters, unless `configs` gives each its own.

        Raises ConfigurationError for what is none of these.
        """
        if settings and configs is not None:
            raise ConfigurationError(f"{next(iter(settings))}: each of configs has its own; leave one of both out")
        if configs is None:
            ports = ((index + 1, base_port + index) for index in range(num_gpus))
            configs = {number: LoRAConfig(lora_id=number, port=port, **settings) for number, port in ports}
        super().__init__(configs, base_model=base_model)
        self.root = Path(root)
        self._leases: dict[int, PortLease] = {}

    async def start(self) -> None:
        """Reserve a port for each adapter, load them, and serve the newest published version of each.

        A damaged version is passed over for the one before it. Raises RuntimeError "Model loading failed".
        """
        await asyncio.to_thread(self._start)

    async def stop(self) -> None:
        """Give the ports back and free the models; harmless twice."""
        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """What `stop` does."""
        for lease in self._leases.values():
            lease.release()
        self._leases.clear()
        super().close()

    @check_arguments
    def submit_rl_update(self, lora_id: int, reward: Finite, weights: str | Path | Mapping[str, Any]) -> int:
        """Publish `weights`, a folder of PEFT's format or tensors by name, with their reward, and serve them; the version.

        Raises ArtifactCorrupt or LogprobMismatch for weights that cannot serve; then nothing is published, and the version
        before serves on.
        """
        policy, root = self.policy(lora_id), self._root(lora_id)
        with TemporaryDirectory() as folder:
            made = _write_weights(policy, weights, Path(folder) / "adapter")
            policy.swap(made, (newest_version(root) or 0) + 1)
            return publish_adapter(root, made, lora_id=lora_id, metrics={"reward": reward})[0].version

    @check_arguments
    def rollback(self, lora_id: int, version: Count) -> None:
        """Serve a published version again. Raises ArtifactMissing or ArtifactCorrupt."""
        policy = self.policy(lora_id)
        policy.swap(read_version(self._root(lora_id), version)[1], version)

    def url(self, lora_id: int) -> str:
        """Raises ConfigurationError: an adapter's port is reserved by `start`, and no server listens at it yet."""
        self._check_known(lora_id)
        lease = self._leases.get(lora_id)
        reserved = f"port {lease.port} is reserved for it" if lease else "start() reserves a port for it"
        raise ConfigurationError(
            f"lora_id {lora_id}: has no address: {reserved}, and no server listens there yet; it answers in this process, by "
            "process_request"
        )

    def get_system_status(self) -> dict[str, Any]:
        """`lora_status` by adapter, `hotswap_status` with its published versions, and `scheduler_stats` with its port."""
        return {
            "lora_status": self.get_status(),
            "hotswap_status": {each: {"versions": version_numbers(self._root(each))} for each in self.configs},
            "scheduler_stats": {"ports": {each: lease.port for each, lease in self._leases.items()}},
        }

    def _start(self) -> None:
        try:
            for each, config in self.configs.items():
                if each not in self._leases:
                    self._leases[each] = lease_port(config.port)
            self.load()
            for each in self.configs:
                for number in reversed(version_numbers(self._root(each))):
                    with suppress(TroupeError):  # a damaged one is passed over
                        self.rollback(each, number)
                        break
        except BaseException:
            self.close()
            raise

    def _root(self, lora_id: int) -> Path:
        return self.root / f"lora{lora_id}"


def _write_weights(policy: ServedPolicy, weights: str | Path | Mapping[str, Any], folder: Path) -> Path:
    if isinstance(weights, str | Path):
        return Path(shutil.copytree(adapter_folder(weights), folder))
    from torch import Tensor

    from components.models.adapters import write_adapter

    for name, each in weights.items():
        if not isinstance(each, Tensor):
            raise ConfigurationError(f"weights[{name!r}] {each!r}: give a tensor, as `policy(id).tensors()` has")
    assert policy.adapter is not None, "a scheduler's policies are adapters"
    write_adapter(dict(weights), policy.adapter, folder)
    return folder


def adapter_folder(path: str | Path) -> Path:
    """The folder of new weights. Raises ConfigurationError if there is none."""
    if not Path(path).is_dir():
        raise ConfigurationError(f"weights {str(path)!r}: there is no such folder; give one in PEFT's format")
    return Path(path)


def create_lora_manager(configs: Mapping[int, LoRAConfig], **settings: Any) -> LoRAManager:
    """A manager of several adapters on one base; `settings` are base_model, device and seed."""
    return LoRAManager(configs, **settings)


def create_distributed_lora_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> DistributedLoRAScheduler:
    """A scheduler of one adapter for each GPU; `settings` are those of DistributedLoRAScheduler, as `base_model`."""
    return DistributedLoRAScheduler(base_port, num_gpus, **settings)
