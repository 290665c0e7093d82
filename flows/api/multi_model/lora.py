"""Adapters by their documented names: a manager that chooses one for each request, and a scheduler that publishes versions."""

import asyncio
import shutil
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from components.errors import ConfigurationError, TransientError, TroupeError
from components.freed import Freed
from components.generation.adapter_selection import AdapterRecord, selected_adapter
from components.generation.adapter_versions import newest_version, publish_adapter, read_version, version_numbers
from components.port_leases import PortLease, lease_port
from components.session.served_models import Question, ServedModel, ServedPolicy
from flows.api.multi_model.configs import LLMConfig, LoRAConfig
from flows.api.multi_model.enums import LoRALoadingStatus, LoRAUpdateStrategy, TaskPriority
from flows.api.multi_model.errors import ModelLoadingFailed, loading, memory_errors
from flows.api.multi_model.fields import Count, Device, Finite, Port, Share, Text, checked_call
from flows.api.multi_model.llm import LLMResponse, answer_settings, local_device, response

_USABLE = (LoRALoadingStatus.READY, LoRALoadingStatus.UPDATING)


class LoRAManager(Freed):
    """Several adapters on one base; each request is answered by one of them. Freed by `close` or a `with` block.

    An adapter that fails is set aside, and its request goes to another one; `update_lora` brings it back.

    **Example** `create_lora_manager({1: LoRAConfig(lora_id=1, rank=8)}, base_model="tiny").process_request("2 + 2 =")`.
    """

    @checked_call
    def __init__(
        self,
        configs: Mapping[int, LoRAConfig],
        strategy: LoRAUpdateStrategy = LoRAUpdateStrategy.ADAPTIVE,
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
        self.configs, self.strategy, self.base_model = dict(configs), strategy, base_model
        self._device, self._seed, self._number = device, seed, 0
        self._lock = threading.RLock()
        self._ends = ExitStack()
        self._policies: dict[int, ServedPolicy] = {}
        self._records = {each: AdapterRecord() for each in self.configs}
        self._status = dict.fromkeys(self.configs, LoRALoadingStatus.IDLE)
        self._errors: dict[int, str] = {}

    @checked_call
    def process_request(
        self, prompt: Text, *, priority: TaskPriority = TaskPriority.MEDIUM, lora_id: int | None = None, **settings: Any
    ) -> LLMResponse:
        """An answer by the adapter that the strategy chooses, or by `lora_id`.

        `settings` are instructions, max_new_tokens, temperature, stop and seed. Raises ConfigurationError for others,
        RuntimeError "Model loading failed", and the last adapter's error if all have failed.
        """
        question = Question(prompt=prompt, **answer_settings(settings, "process_request"))
        self.load()
        while True:
            chosen = self._choose(priority) if lora_id is None else lora_id
            policy, began, error = self.policy(chosen), time.monotonic(), None
            try:
                with memory_errors():
                    answer = policy.answer(question)
            except TransientError as failure:
                error = failure
                self._set_aside(chosen, error)
            with self._lock:
                self._records[chosen] = self._records[chosen].after_request(
                    seconds=time.monotonic() - began, failed=error is not None, now_seconds=time.time()
                )
            if error is None:
                return response(answer, lora_id=chosen)
            if lora_id is not None or not self._ready():
                raise error

    def load(self) -> None:
        """Load the base and all adapters, if they are not. An adapter that cannot be loaded is set aside with its error.

        Raises RuntimeError "Model loading failed" for the base, and if no adapter can be loaded; ConfigurationError for target
        modules that the base has not.
        """
        with self._lock:
            if self._policies:
                return
            with ExitStack() as opened, memory_errors():
                with loading(self.base_model):
                    model = opened.enter_context(ServedModel(self.base_model, device=local_device(self._device)))
                for each, config in self.configs.items():
                    self._load_adapter(model, each, config)
                if not self._policies:
                    raise ModelLoadingFailed(f"Model loading failed: {self._errors}; no adapter is left")
                self._ends = opened.pop_all()

    @checked_call
    def update_lora(self, lora_id: int, weights_path: str | Path) -> int:
        """Serve the weights in a folder of PEFT's format as the adapter's next version; its number.

        Requests go on during it. Raises ArtifactCorrupt or LogprobMismatch, and then the version before serves on.
        """
        policy, before = self.policy(lora_id), self._status[lora_id]
        self._status[lora_id] = LoRALoadingStatus.UPDATING
        try:
            version = policy.swap(adapter_folder(weights_path), policy.version.step + 1)
        except BaseException:
            self._status[lora_id] = before
            raise
        self._status[lora_id] = LoRALoadingStatus.READY
        self._errors.pop(lora_id, None)
        return version.step

    @checked_call
    def record_reward(self, lora_id: int, reward: Share) -> None:
        """Tell what an answer of the adapter was worth, 0 to 1: by it weighted_random and rl_optimized choose."""
        self._check_known(lora_id)
        with self._lock:
            self._records[lora_id] = self._records[lora_id].after_reward(reward)

    def get_status(self) -> dict[int, dict[str, Any]]:
        """Of each adapter its status, version, what is known of it, and why it was set aside."""
        with self._lock:
            return {
                each: {
                    "status": self._status[each].value,
                    "version": self._policies[each].version.step if each in self._policies else None,
                    "error": self._errors.get(each),
                    **asdict(self._records[each]),
                }
                for each in self.configs
            }

    def policy(self, lora_id: int) -> ServedPolicy:
        """The adapter as the pipeline serves it. Raises ValueError for an unknown one."""
        self._check_known(lora_id)
        self.load()
        if lora_id not in self._policies:
            raise ModelLoadingFailed(f"Model loading failed: lora_id {lora_id}: {self._errors.get(lora_id)}")
        return self._policies[lora_id]

    def close(self) -> None:
        """Free the base and its adapters."""
        self._ends.close()
        self._policies.clear()

    def _check_known(self, lora_id: int) -> None:
        if lora_id not in self.configs:
            raise ConfigurationError(f"lora_id {lora_id!r}: use one of {', '.join(map(str, self.configs))}")

    def _load_adapter(self, model: ServedModel, lora_id: int, config: LoRAConfig) -> None:
        self._status[lora_id] = LoRALoadingStatus.LOADING
        weights = None if config.weights_path is None else Path(config.weights_path)
        try:
            seed = self._seed + lora_id
            self._policies[lora_id] = model.policy(f"lora-{lora_id}", config.adapter(), seed=seed, weights=weights)
            self._status[lora_id] = LoRALoadingStatus.READY
        except TroupeError as error:
            self._set_aside(lora_id, error)
            if isinstance(error, ConfigurationError):
                self._policies.clear()
                where = f"configs[{lora_id}].target_modules {config.target_modules}"
                raise ConfigurationError(f"{where}: {error}") from error

    def _ready(self) -> dict[int, AdapterRecord]:
        with self._lock:
            return {each: self._records[each] for each in self._policies if self._status[each] in _USABLE}

    def _choose(self, priority: TaskPriority) -> int:
        with self._lock:
            number, self._number = self._number, self._number + 1
        return selected_adapter(
            self.strategy.value,
            self._ready(),
            number=number,
            now_seconds=time.time(),
            priority=priority.value,
            seed=self._seed,
        )

    def _set_aside(self, lora_id: int, error: Exception) -> None:
        with self._lock:
            self._status[lora_id] = LoRALoadingStatus.ERROR
            self._errors[lora_id] = f"{type(error).__name__}: {error}"


class DistributedLoRAScheduler(LoRAManager):
    """A manager of adapters 1 to n, each with a reserved port, whose new weights are published, and served without a pause.

    No server listens at the ports yet: adapters answer in this process, by `process_request`.

    **Example**

        scheduler = create_distributed_lora_scheduler(base_port=8001, num_gpus=2, base_model="tiny")
        await scheduler.start()
        version = scheduler.submit_rl_update(1, reward=0.8, weights="./adapter")
        await scheduler.stop()
    """

    @checked_call
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
        self._updates, self._rollbacks = dict.fromkeys(configs, 0), dict.fromkeys(configs, 0)

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

    @checked_call
    def submit_rl_update(self, lora_id: int, reward: Finite, weights: str | Path | Mapping[str, Any]) -> int:
        """Publish `weights`, a folder of PEFT's format or tensors by name, with their reward, and serve them; the version.

        Raises ArtifactCorrupt or LogprobMismatch for weights that cannot serve; then nothing is published, and the version
        before serves on.
        """
        policy = self.policy(lora_id)
        with TemporaryDirectory() as folder:
            made = _write_weights(policy, weights, Path(folder) / "adapter")
            try:
                policy.swap(made, (newest_version(self._root(lora_id)) or 0) + 1)
            except TroupeError:
                self._rollbacks[lora_id] += 1
                raise
            info, _ = publish_adapter(self._root(lora_id), made, lora_id=lora_id, metrics={"reward": reward})
        self.record_reward(lora_id, min(max(reward, 0.0), 1.0))
        self._updates[lora_id] += 1
        return info.version

    @checked_call
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
        """`lora_status` by adapter, `hotswap_status` with published versions, `training_stats` and `scheduler_stats`."""
        return {
            "lora_status": self.get_status(),
            "hotswap_status": {
                each: {"versions": version_numbers(self._root(each)), "rollbacks": self._rollbacks[each]}
                for each in self.configs
            },
            "training_stats": {"updates": dict(self._updates)},
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


def create_lora_manager(
    configs: Mapping[int, LoRAConfig], strategy: LoRAUpdateStrategy = LoRAUpdateStrategy.ADAPTIVE, **settings: Any
) -> LoRAManager:
    """A manager of several adapters on one base; `settings` are base_model, device and seed."""
    return LoRAManager(configs, strategy, **settings)


def create_distributed_lora_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> DistributedLoRAScheduler:
    """A scheduler of one adapter for each GPU; `settings` are those of DistributedLoRAScheduler, as `base_model`."""
    return DistributedLoRAScheduler(base_port, num_gpus, **settings)
