"""The scheduler by its documented names: which model is on which GPU, by the memory that each needs, and where it answers."""

from dataclasses import dataclass
from itertools import count
from typing import Any

from components.errors import ConfigurationError
from components.machine.closeable import Closeable
from components.methods.population.served_models import ServedModel
from components.text.suggestions import suggest
from flows.api.multi_model.configs import LLMConfig
from flows.api.multi_model.errors import loading, memory_errors
from flows.api.multi_model.fields import HIGHEST_PORT, Count, Port, Text, Whole, check_arguments


@dataclass(slots=True, kw_only=True)
class _Place:
    gpu_id: int
    memory_mib: int
    port: int
    base_model: str
    model: ServedModel | None = None


class UnifiedScheduler(Closeable):
    """Models on GPUs, by memory, each at an address of this machine, which answers programs that speak to OpenAI or Anthropic.

    **Example** a client of the second model's address asks for the model "b":

        scheduler = create_unified_scheduler(base_port=8001, num_gpus=2, base_model="tiny")
        scheduler.register_model("a", memory_mib=30_000)  # on GPU 0
        scheduler.register_model("b", memory_mib=30_000)  # on GPU 1, which has more memory left
        client = openai.OpenAI(base_url=scheduler.get_model_url("b"), api_key="none")
    """

    @check_arguments
    def __init__(
        self, base_port: Port = 8001, num_gpus: Count = 8, *, gpu_memory_mib: Count | None = None,
        base_model: Text = LLMConfig.model_name,
    ) -> None:  # fmt: skip
        """`gpu_memory_mib` of each GPU bounds what its models may take; None: no bound. Raises ConfigurationError."""
        self.base_port, self.num_gpus, self.gpu_memory_mib = base_port, num_gpus, gpu_memory_mib
        self.base_model = base_model
        self._places: dict[str, _Place] = {}

    @check_arguments
    def register_model(
        self, model_id: Text, gpu_id: int | None = None, *, memory_mib: Whole = 0, base_model: Text | None = None
    ) -> bool:
        """Place a model on a GPU; None: on that whose models take least. True if it has a place; it is loaded when its address
        is asked for. False for a known name, a GPU that is not there, or too little memory left on it."""
        taken = self._sum_memory()
        gpus = [each.gpu_id for each in self._places.values()]
        gpu = min(taken, key=lambda each: (taken[each], gpus.count(each))) if gpu_id is None else gpu_id
        if model_id in self._places or gpu not in taken:
            return False
        if self.gpu_memory_mib is not None and taken[gpu] + memory_mib > self.gpu_memory_mib:
            return False
        given = {each.port for each in self._places.values()}
        if (port := next(each for each in count(self.base_port) if each not in given)) > HIGHEST_PORT:
            raise ConfigurationError(f"base_port {self.base_port}: no port from it on is left; use a lower one")
        base = base_model or self.base_model
        self._places[model_id] = _Place(gpu_id=gpu, memory_mib=memory_mib, port=port, base_model=base)
        return True

    def unregister_model(self, model_id: str) -> None:
        """Free a model, its address and its memory. Raises ConfigurationError for an unknown one."""
        if (model := self._read_place(model_id).model) is not None:
            model.close()
        del self._places[model_id]

    def get_model_url(self, model_id: str) -> str:
        """The address with /v1 at which the model answers by its name, which loads it the first time.

        Raises RuntimeError "Model loading failed" or "GPU memory insufficient", and ConfigurationError for an unknown model and
        for a port that another program has.
        """
        place = self._read_place(model_id)
        if place.model is None:
            with memory_errors(), loading(place.base_model):
                model = ServedModel(place.base_model, device="auto", gpu=place.gpu_id)
                model.policy(model_id)
            place.model = model
        return place.model.listen(place.port)

    def get_system_status(self) -> dict[str, Any]:
        """`models` with GPU, memory, port and whether each is loaded, and `memory_mib` that is taken of each GPU."""
        shown = ("gpu_id", "memory_mib", "port", "base_model")
        models = {
            name: {**{each: getattr(place, each) for each in shown}, "is_loaded": place.model is not None}
            for name, place in self._places.items()
        }
        return {"models": models, "memory_mib": self._sum_memory()}

    async def shutdown(self) -> None:
        """Free all models and places. Harmless twice."""
        self.close()

    def close(self) -> None:
        """What `shutdown` does."""
        for name in list(self._places):
            self.unregister_model(name)

    def _sum_memory(self) -> dict[int, int]:
        taken = dict.fromkeys(range(self.num_gpus), 0)
        for each in self._places.values():
            taken[each.gpu_id] += each.memory_mib
        return taken

    def _read_place(self, model_id: str) -> _Place:
        if model_id not in self._places:
            otherwise = None if self._places else "no model is registered; call register_model first"
            raise ConfigurationError(
                f"model_id {model_id!r}: {suggest(str(model_id), self._places, otherwise=otherwise)}"
            )
        return self._places[model_id]


def create_unified_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler without models; `settings` are those of UnifiedScheduler, as `base_model`."""
    return UnifiedScheduler(base_port, num_gpus, **settings)


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
