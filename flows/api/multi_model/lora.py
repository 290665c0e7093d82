"""Adapters by their documented names: several on one base, which answer here and at addresses, and take new weights."""

import asyncio
import itertools
import os
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.machine.closeable import Closeable
from components.methods.population.served_models import LivePolicy, Question, ServedModel
from flows.api.fields import Count, Device, Port, Text, check_arguments, refuse_changed
from flows.api.multi_model.configs import LLMConfig, LoRAConfig
from flows.api.multi_model.errors import memory_errors
from flows.api.multi_model.llm import LLMResponse, make_response, open_model, read_settings


class LoRAManager(Closeable):
    """Several adapters on one base, which answer in turn, by id, or at addresses. Freed by `close` or a `with` block.

    **Example** `create_lora_manager({1: LoRAConfig(lora_id=1, rank=8)}, base_model="tiny").process_request("2 + 2 =")`.
    """

    @check_arguments
    def __init__(
        self, configs: Mapping[int, LoRAConfig], *, base_model: Text = LLMConfig.model_name, device: Device = "auto"
    ) -> None:
        """The base and its adapters are loaded by the first request. Raises ConfigurationError for what is none of these, and
        for a gpu_id, since all adapters are on the base's device."""
        if not configs:
            raise ConfigurationError("configs: none; give one LoRAConfig or more, by id")
        for key, each in configs.items():
            if key != each.lora_id:
                raise ConfigurationError(f"configs[{key!r}].lora_id {each.lora_id}: use the same number as key")
            refuse_changed(each, ["gpu_id"], "all adapters are on one base")
        self.configs, self.base_model, self._device = dict(configs), base_model, device
        self._turns = itertools.cycle(self.configs)
        self._lock = threading.Lock()
        self._model: ServedModel | None = None
        self._policies: dict[int, LivePolicy] = {}

    @check_arguments
    def process_request(self, prompt: Text, *, lora_id: int | None = None, **settings: Any) -> LLMResponse:
        """An answer by the next adapter in turn, or by `lora_id`.

        `settings` are those of a node of SharedLLMManager. Raises ConfigurationError for others, RuntimeError "Model loading
        failed" and "GPU memory insufficient".
        """
        question = Question(prompt=prompt, **read_settings(settings))
        chosen = next(self._turns) if lora_id is None else lora_id
        with memory_errors():
            return make_response(self.policy(chosen).answer(question), lora_id=chosen)

    def load(self) -> ServedModel:
        """The base, with all adapters loaded.

        Raises RuntimeError "Model loading failed", and ConfigurationError for target modules that the base has not.
        """
        with self._lock, ExitStack() as opened, memory_errors():
            if self._model is None:
                model = opened.enter_context(open_model(self.base_model, device=self._device))
                self._policies = {
                    key: model.policy(f"lora-{key}", each.adapter()) for key, each in self.configs.items()
                }
                self._model = model
                opened.pop_all()
            return self._model

    @check_arguments
    def update_lora(self, lora_id: int, weights: str | Path | Mapping[str, Any]) -> int:
        """Answer by a folder of PEFT's format, or by tensors by name, as the adapter's next version; its number.

        Raises ArtifactCorrupt for weights that are not the adapter's or hold NaN, and then the version before answers on.
        """
        policy = self.policy(lora_id)
        if isinstance(weights, str | Path) and not os.path.isdir(weights):
            raise ConfigurationError(f"weights {str(weights)!r}: there is no such folder; give one in PEFT's format")
        return policy.swap(Path(weights) if isinstance(weights, str) else weights).step

    def url(self, lora_id: int) -> str:
        """The address with /v1 at the adapter's port, where programs ask for it as "lora-1", "lora-2" and so on.

        Raises ValueError for an unknown adapter, and for a port that another program has.
        """
        self.policy(lora_id)
        return self.load().listen(self.configs[lora_id].port)

    def get_status(self) -> dict[int, dict[str, Any]]:
        """Of each adapter whether it is loaded, its version and its port."""
        versions = {each: policy.version.step for each, policy in self._policies.items()}
        return {
            each: {"is_loaded": each in versions, "version": versions.get(each), "port": config.port}
            for each, config in self.configs.items()
        }

    def policy(self, lora_id: int) -> LivePolicy:
        """The adapter as it answers. Raises ValueError for an unknown one."""
        if lora_id not in self.configs:
            raise ConfigurationError(f"lora_id {lora_id!r}: use one of {', '.join(map(str, self.configs))}")
        self.load()
        return self._policies[lora_id]

    def close(self) -> None:
        """Free the base and its adapters."""
        if self._model is not None:
            self._model.close()
        self._model, self._policies = None, {}


class DistributedLoRAScheduler(LoRAManager):
    """A manager of adapters 1 to n, each at a port of its own, which takes the weights that a training sends it. All are on one
    base in this process.

    **Example**

        scheduler = create_distributed_lora_scheduler(base_port=8001, num_gpus=2, base_model="tiny")
        await scheduler.start()
        client = openai.OpenAI(base_url=scheduler.url(1), api_key="none")  # asks for the model "lora-1"
        version = scheduler.update_lora(1, "./adapter")
        await scheduler.stop()
    """

    @check_arguments
    def __init__(
        self, base_port: Port = 8001, num_gpus: Count = 8, *, base_model: Text = LLMConfig.model_name, **settings: Any
    ) -> None:
        """`settings` are fields of LoRAConfig, for all `num_gpus` adapters. Raises ConfigurationError for what is none."""
        ports = {number: base_port + number - 1 for number in range(1, num_gpus + 1)}
        configs = {number: LoRAConfig(lora_id=number, port=port, **settings) for number, port in ports.items()}
        super().__init__(configs, base_model=base_model)

    async def start(self) -> None:
        """Load the adapters, and listen at their ports. Raises what `url` and `load` raise."""
        for number in self.configs:
            await asyncio.to_thread(self.url, number)

    async def stop(self) -> None:
        """Free the models; harmless twice."""
        await asyncio.to_thread(self.close)


create_lora_manager = LoRAManager
create_distributed_lora_scheduler = DistributedLoRAScheduler
