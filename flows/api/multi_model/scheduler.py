"""The scheduler by its documented names: which model is on which GPU, and where it answers."""

from itertools import count
from typing import Any

from components.errors import ConfigurationError
from components.machine.closeable import Closeable
from components.methods.population.served_models import ServedModel
from components.text.suggestions import suggest
from flows.api.fields import HIGHEST_PORT, Count, Port, Text, check_arguments
from flows.api.multi_model.configs import LLMConfig
from flows.api.multi_model.errors import memory_errors
from flows.api.multi_model.llm import open_model


class UnifiedScheduler(Closeable):
    """Models on GPUs, each at an address of this machine, which answers programs that speak to OpenAI or Anthropic.

    **Example** a client of the second model's address asks for the model "b":

        scheduler = create_unified_scheduler(base_port=8001, num_gpus=2, base_model="tiny")
        scheduler.register_model("a")  # on GPU 0
        scheduler.register_model("b")  # on GPU 1, which has no model yet
        client = openai.OpenAI(base_url=scheduler.get_model_url("b"), api_key="none")
    """

    @check_arguments
    def __init__(self, base_port: Port = 8001, num_gpus: Count = 8, *, base_model: Text = LLMConfig.model_name) -> None:
        """Models are of `base_model` unless they say otherwise. Raises ConfigurationError."""
        self.base_port, self.num_gpus, self.base_model = base_port, num_gpus, base_model
        self._places: dict[str, dict[str, Any]] = {}
        self._models: dict[str, ServedModel] = {}

    @check_arguments
    def register_model(self, model_id: Text, gpu_id: int | None = None, *, base_model: Text | None = None) -> bool:
        """Place a model on a GPU; None: on that with the fewest. True if it has a place; it is loaded when its address is asked
        for. False for a known name, and for a GPU that is not there."""
        taken, ports = ([each[name] for each in self._places.values()] for name in ("gpu_id", "port"))
        gpu = min(range(self.num_gpus), key=taken.count) if gpu_id is None else gpu_id
        if model_id in self._places or gpu not in range(self.num_gpus):
            return False
        if (port := next(each for each in count(self.base_port) if each not in ports)) > HIGHEST_PORT:
            raise ConfigurationError(f"base_port {self.base_port}: no port from it on is left; use a lower one")
        self._places[model_id] = {"gpu_id": gpu, "port": port, "base_model": base_model or self.base_model}
        return True

    def unregister_model(self, model_id: str) -> None:
        """Free a model and its address. Raises ConfigurationError for an unknown one."""
        self._read_place(model_id)
        del self._places[model_id]
        if model_id in self._models:
            self._models.pop(model_id).close()

    def get_model_url(self, model_id: str) -> str:
        """The address with /v1 at which the model answers by its name, which loads it the first time.

        Raises RuntimeError "Model loading failed" or "GPU memory insufficient", and ConfigurationError for an unknown model and
        for a port that another program has.
        """
        place = self._read_place(model_id)
        if model_id not in self._models:
            with memory_errors():
                model = open_model(place["base_model"], gpu=place["gpu_id"])
                model.policy(model_id)
            self._models[model_id] = model
        return self._models[model_id].listen(place["port"])

    def get_system_status(self) -> dict[str, Any]:
        """`models` with GPU, port, base, and whether each is loaded."""
        places = self._places.items()
        return {"models": {name: {**place, "is_loaded": name in self._models} for name, place in places}}

    async def shutdown(self) -> None:
        """Free all models and places. Harmless twice."""
        self.close()

    def close(self) -> None:
        """What `shutdown` does."""
        for name in list(self._places):
            self.unregister_model(name)

    def _read_place(self, model_id: str) -> dict[str, Any]:
        if model_id not in self._places:
            remedy = suggest(str(model_id), self._places) if self._places else "call register_model first"
            raise ConfigurationError(f"model_id {model_id!r}: {remedy}")
        return self._places[model_id]


create_unified_scheduler = UnifiedScheduler


def create_cooperative_scheduler(
    base_port: int = 8001, num_gpus: int = 8, *, prefix: str = "cooperative_model", **settings: Any
) -> UnifiedScheduler:
    """A scheduler with a model on each GPU, `cooperative_model_0` and on."""
    scheduler = UnifiedScheduler(base_port, num_gpus, **settings)
    for gpu in range(num_gpus):
        scheduler.register_model(f"{prefix}_{gpu}", gpu)
    return scheduler


def create_competitive_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler with a model on each GPU, `competitive_model_0` and on."""
    return create_cooperative_scheduler(base_port, num_gpus, prefix="competitive_model", **settings)
