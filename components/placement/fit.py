"""What the workers of a plan hold of each device's memory, and the refusal of what does not fit."""

from collections import Counter
from collections.abc import Mapping

from components.config import RunConfig, VllmGeneration
from components.errors import ConfigurationError
from components.models.memory import GIB, Bytes, ModelNumbers, check_fits, engine_bytes, training_bytes
from components.models.model_groups import initial_models, name_served_models
from components.placement.plan import Plan, Worker

ALONE, SHARED = 0.9, 0.5
"""The part of a device that a vLLM server reserves, if `memory_fraction` does not say it."""


def memory_fraction(config: RunConfig, plan: Plan, engine: Worker) -> float:
    """The part of each of its devices that a vLLM server reserves."""
    given = config.resources.placement.memory_fraction
    if given is not None:
        return given
    in_turns = config.resources.placement.share == "turns"
    return ALONE if in_turns or not plan.list_beside(engine) else SHARED


def estimate_worker(config: RunConfig, plan: Plan, worker: Worker, model: ModelNumbers, *, num_tokens: int) -> Bytes:
    """Part -> bytes that a worker holds of each of its devices, or of its host's memory."""
    if worker.kind == "rank":
        return training_bytes(model, config.training, with_reference=config.loss.kl_coefficient > 0)
    devices = plan.list_devices(worker)
    reserved = int(memory_fraction(config, plan, worker) * min((each.num_bytes for each in devices), default=0))
    return engine_bytes(model, config.generation, num_tokens=num_tokens, reserved_bytes=reserved)


def check_plan(config: RunConfig, plan: Plan, sizes: Mapping[str, ModelNumbers], *, num_tokens: int) -> None:
    """Raise ConfigurationError, one line, for the first device or host whose memory is less than its workers need.

    `sizes` are those of the models that are known, by the name of any policy on them; `num_tokens` the most that an engine of
    this process holds at once.
    """
    bills: dict[tuple[int, int | None], Counter[str]] = {}
    turns = config.resources.placement.share == "turns"
    for worker in plan.workers:
        model = find_sizes(config, worker, sizes)
        if model is None:
            continue
        parts = Counter(estimate_worker(config, plan, worker, model, num_tokens=num_tokens))
        check_weights(config, plan, worker, model)
        for device in worker.devices or (None,):
            bill = bills.setdefault((worker.host, device), Counter())
            if turns and device is not None:
                bills[worker.host, device] = max(bill, parts, key=lambda each: each.total())
            else:
                bill.update(parts)
    for (host, device), bill in bills.items():
        place = plan.inventory[host]
        kind = "cpu" if device is None else "cuda"
        available = place.num_bytes if device is None else place.devices[device].num_bytes
        if available is not None:
            where = (
                f"device {kind}"
                if device is None or len(place.devices) == 1
                else f"device {kind}:{device} of {place.name}"
            )
            check_fits(bill, available, where=where)


def check_weights(config: RunConfig, plan: Plan, worker: Worker, model: ModelNumbers) -> None:
    """Raise ConfigurationError if a vLLM server's weights alone take more than it reserves."""
    generation = config.generation
    if worker.kind != "engine" or not worker.devices or not isinstance(generation, VllmGeneration):
        return
    reserved = memory_fraction(config, plan, worker) * min(each.num_bytes for each in plan.list_devices(worker))
    held = model.count_weight_bytes(generation.dtype) / generation.vllm.tensor_parallel_size
    if held >= reserved:
        raise ConfigurationError(
            f"resources.placement: the weights of {worker.model} take {held / GIB:.1f} GiB of each device, and its "
            f"server reserves {reserved / GIB:.1f}: raise generation.vllm.tensor_parallel_size, or "
            "resources.placement.memory_fraction"
        )


def find_sizes(config: RunConfig, worker: Worker, sizes: Mapping[str, ModelNumbers]) -> ModelNumbers | None:
    """The sizes of a worker's model, if they are known."""
    names = initial_models(config.policies) if worker.kind == "rank" else name_served_models(config)
    return next((sizes[name] for name in names[worker.model] if name in sizes), None)
