"""The scheduler by its documented names: which model is on which GPU, by the memory that each needs."""

from dataclasses import asdict, dataclass
from typing import Any

from components.errors import ConfigurationError
from components.text.suggestions import suggest
from flows.api.multi_model.fields import HIGHEST_PORT, Count, Port, Text, Whole, check_arguments


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    gpu_id: int
    memory_mib: int
    port: int


class UnifiedScheduler:
    """Places models on GPUs by memory, each with the number of a port.

    It starts nothing: no server listens at the ports yet. Models answer in this process by a SharedLLMManager, and cooperate or
    compete in a MultiModelTrainer.

    **Example**

        scheduler = create_unified_scheduler(base_port=8001, num_gpus=2, gpu_memory_mib=80_000)
        scheduler.register_model("a", memory_mib=30_000)  # on GPU 0
        scheduler.register_model("b", memory_mib=30_000)  # on GPU 1, which has more memory left
    """

    @check_arguments
    def __init__(self, base_port: Port = 8001, num_gpus: Count = 8, *, gpu_memory_mib: Count | None = None) -> None:
        """`gpu_memory_mib` of each GPU bounds what its models may take; None: no bound. Raises ConfigurationError."""
        self.base_port, self.num_gpus, self.gpu_memory_mib = base_port, num_gpus, gpu_memory_mib
        self._places: dict[str, _Place] = {}

    @check_arguments
    def register_model(self, model_id: Text, gpu_id: int | None = None, *, memory_mib: Whole = 0) -> bool:
        """Place a model on a GPU; None: on that whose models take least. True if it has a place.

        False for a known name, a GPU that is not there, or too little memory left on it. Raises ConfigurationError without a
        port, which is the first from `base_port` on that no other model of this scheduler has.
        """
        taken = self._sum_memory()
        on_gpus = [each.gpu_id for each in self._places.values()]
        gpu = min(taken, key=lambda each: (taken[each], on_gpus.count(each))) if gpu_id is None else gpu_id
        if model_id in self._places or gpu not in taken:
            return False
        if self.gpu_memory_mib is not None and taken[gpu] + memory_mib > self.gpu_memory_mib:
            return False
        given = {each.port for each in self._places.values()}
        port = next((each for each in range(self.base_port, HIGHEST_PORT + 1) if each not in given), None)
        if port is None:
            raise ConfigurationError(f"base_port {self.base_port}: no port from it on is left; use a lower one")
        self._places[model_id] = _Place(gpu_id=gpu, memory_mib=memory_mib, port=port)
        return True

    def unregister_model(self, model_id: str) -> None:
        """Give a model's port and memory back. Raises ConfigurationError for an unknown one."""
        self._read_place(model_id)
        del self._places[model_id]

    def get_model_url(self, model_id: str) -> str:
        """Raises ConfigurationError: no server listens at a model's port yet."""
        raise ConfigurationError(
            f"model_id {model_id!r}: has no address: no server listens at port {self._read_place(model_id).port} yet; use a "
            "SharedLLMManager, which answers in this process"
        )

    def get_system_status(self) -> dict[str, Any]:
        """`models` with GPU, memory and port, and `memory_mib` that is taken of each GPU."""
        return {"models": {name: asdict(each) for name, each in self._places.items()}, "memory_mib": self._sum_memory()}

    async def shutdown(self) -> None:
        """Give all places back. Harmless twice."""
        self._places.clear()

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
    """A scheduler without models; `settings` is `gpu_memory_mib`."""
    return UnifiedScheduler(base_port, num_gpus, **settings)


def create_cooperative_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler with a place on each GPU, `cooperative_model_0` and on, for `create_cooperative_multimodel_trainer`."""
    return _fill(UnifiedScheduler(base_port, num_gpus, **settings), "cooperative_model")


def create_competitive_scheduler(base_port: int = 8001, num_gpus: int = 8, **settings: Any) -> UnifiedScheduler:
    """A scheduler with a place on each GPU, `competitive_model_0` and on, for `create_competitive_multimodel_trainer`."""
    return _fill(UnifiedScheduler(base_port, num_gpus, **settings), "competitive_model")


def _fill(scheduler: UnifiedScheduler, name: str) -> UnifiedScheduler:
    for gpu in range(scheduler.num_gpus):
        scheduler.register_model(f"{name}_{gpu}", gpu)
    return scheduler
