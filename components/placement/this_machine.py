"""The plan of a run on this machine, and the devices that it gives."""

from components.config import RunConfig
from components.errors import ConfigurationError
from components.machine.process_variables import read_variables
from components.placement.inventory import Host, read_this_host
from components.placement.plan import Plan, plan


def uses_gpus(config: RunConfig) -> bool:
    """Whether any worker of a run needs a GPU."""
    return "cuda" in (config.generation.device, config.training.device)


def plan_here(config: RunConfig) -> Plan:
    """The plan of a run on this machine. Raises ConfigurationError if it has too few GPUs, and what `read_this_host` raises."""
    host = read_this_host(read_variables()) if uses_gpus(config) else Host(name="here")
    if uses_gpus(config) and not host.devices:
        raise ConfigurationError(
            "generation.device or training.device is cuda, but nvidia-smi shows no GPU here; set both to cpu"
        )
    return plan(config, (host,))


def rank_devices(config: RunConfig, model: str) -> tuple[str, ...]:
    """The names of the devices of a model's ranks, one a rank; none on the CPU."""
    if config.training.device != "cuda":
        return ()
    here = plan_here(config)
    return tuple(device.name for rank in here.select("rank", model) for device in here.list_devices(rank))


def engine_device(config: RunConfig, model: str) -> int:
    """The number, among this process's visible GPUs, of the device of a model's engine; 0 on the CPU."""
    if config.generation.device != "cuda":
        return 0
    (engine,) = plan_here(config).select("engine", model)
    return engine.devices[0]
