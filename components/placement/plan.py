"""The plan: each engine and each rank of a trainer with its host and its devices, as a pure function."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from components.config import RunConfig, VllmGeneration
from components.errors import ConfigurationError
from components.models.model_groups import initial_models, name_served_models
from components.placement.inventory import Device, Inventory

Kind = Literal["engine", "rank"]
_FIELD = "resources.placement"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """An engine's replica or a trainer's rank: number `number` of `model`, with these devices of host `host`.

    Without devices it runs on the host's CPUs.
    """

    kind: Kind
    model: str
    number: int
    host: int
    devices: tuple[int, ...] = ()

    def __str__(self) -> str:
        """**Example** "engine 0 of team"."""
        return f"{self.kind} {self.number} of {self.model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All workers of a run on an inventory."""

    inventory: Inventory
    workers: tuple[Worker, ...]

    def select(self, kind: Kind, model: str) -> tuple[Worker, ...]:
        """The workers of a kind of a model, by number."""
        return tuple(each for each in self.workers if (each.kind, each.model) == (kind, model))

    def list_devices(self, worker: Worker) -> tuple[Device, ...]:
        """The devices of a worker, with their names and sizes."""
        return tuple(self.inventory[worker.host].devices[index] for index in worker.devices)

    def list_beside(self, worker: Worker) -> tuple[Worker, ...]:
        """The other workers on any of its devices."""
        return tuple(
            other
            for other in self.workers
            if other is not worker and other.host == worker.host and {*other.devices} & {*worker.devices}
        )

    def group_starts(self) -> tuple[tuple[Worker, ...], ...]:
        """The engines in groups that start one after another, as vLLM measures what is free while it starts: no two of a group
        share a device.

        **Example** engines 0 and 1 on devices 0 and 1, engine 2 on device 0: ((0, 1), (2,)).
        """
        groups: list[list[Worker]] = []
        for engine in (each for each in self.workers if each.kind == "engine"):
            beside = self.list_beside(engine)
            free = (group for group in groups if not any(other in group for other in beside))
            group = next(free, None)
            if group is None:
                groups.append(group := [])
            group.append(engine)
        return tuple(map(tuple, groups))


def plan(config: RunConfig, inventory: Inventory) -> Plan:
    """Engines and ranks of all models of `config` on `inventory`, each on devices of its own as far as there are any.

    The runner `thread` uses the first host alone. A worker gets the device with the fewest workers, of these the first; an
    engine's devices are on one host. Raises ConfigurationError, one line that names the first worker that finds no place.

    **Example** one policy, `placement.replicas` 4 and `training.num_ranks` 4 on 8 GPUs: engines on 0-3, ranks on 4-7.
    """
    assert inventory, "an inventory has at least one host"
    if config.resources.runner == "thread":
        inventory = inventory[:1]
    desk = _Desk(config, inventory)
    turns = config.resources.placement.share == "turns"
    trainers = {name: names for name, names in initial_models(config.policies).items() if _is_trained(config, names)}
    for model in name_served_models(config):
        desk.place_engines(model)
    for model in trainers:
        desk.place_ranks(model, with_engine=_serving(config, model) if turns else None)
    return Plan(inventory=inventory, workers=tuple(desk.placed))


class _Desk:
    """Places workers one after another, and counts them by device."""

    def __init__(self, config: RunConfig, inventory: Inventory) -> None:
        self._config = config
        self._inventory = inventory
        self._taken: Counter[tuple[int, int]] = Counter()
        self.placed: list[Worker] = []

    def place_engines(self, model: str) -> None:
        """The replicas of a model; in this process there is one."""
        generation = self._config.generation
        if generation.server_urls:
            return
        served = isinstance(generation, VllmGeneration)
        width = generation.vllm.tensor_parallel_size if isinstance(generation, VllmGeneration) else 1
        for number in range(self._config.resources.placement.replicas if served else 1):
            # An engine of this process is where the process is.
            hosts = range(len(self._inventory)) if served else (0,)
            chosen = (
                self._choose(width, hosts, f"engine {number} of {model}") if generation.device == "cuda" else (0, ())
            )
            self._add("engine", model, number, *chosen)

    def place_ranks(self, model: str, *, with_engine: str | None) -> None:
        """The ranks of a model's update; in turns they have the devices of its engine."""
        training, spread = self._config.training, self._config.resources.placement.ranks == "spread"
        num_ranks, hosts = training.num_ranks, range(len(self._inventory))
        if training.device != "cuda":
            for number in range(num_ranks):
                self._add("rank", model, number, number % len(hosts) if spread else 0, ())
            return
        if with_engine is not None:
            engines = [each for each in self.placed if (each.kind, each.model) == ("engine", with_engine)]
            places: list[tuple[int, tuple[int, ...]]] = [
                (each.host, (device,)) for each in engines for device in each.devices
            ]
            if len(places) < num_ranks:
                raise ConfigurationError(
                    f"{_FIELD}.share turns: {model} has {num_ranks} ranks and engines on {len(places)} devices; set "
                    f"training.num_ranks to {len(places)}, or share to beside"
                )
        elif spread:
            if num_ranks > len(hosts):
                raise ConfigurationError(
                    f"{_FIELD}.ranks spread: {model} has {num_ranks} ranks and there are {len(hosts)} hosts; set it to pack"
                )
            free = sorted(hosts, key=lambda host: (min(self._load(host), default=1 << 30), host))[:num_ranks]
            places = [self._choose(1, (host,), f"rank {number} of {model}") for number, host in enumerate(free)]
        else:
            host, devices = self._choose(num_ranks, hosts, f"{num_ranks} ranks of {model}")
            places = [(host, (device,)) for device in devices]
        for number, place in enumerate(places[:num_ranks]):
            self._add("rank", model, number, *place)

    def _add(self, kind: Kind, model: str, number: int, host: int, devices: tuple[int, ...]) -> None:
        self._taken.update((host, device) for device in devices)
        self.placed.append(Worker(kind=kind, model=model, number=number, host=host, devices=devices))

    def _choose(self, num_devices: int, hosts: Iterable[int], who: str) -> tuple[int, tuple[int, ...]]:
        """The host and devices with the fewest workers. Raises ConfigurationError."""
        apart = self._config.resources.placement.share == "apart"
        found: list[tuple[int, int, tuple[int, ...]]] = []
        for host in hosts:
            load = self._load(host)
            order = sorted(range(len(load)), key=lambda device: (load[device], device))
            chosen = [device for device in order if not (apart and load[device])][:num_devices]
            if len(chosen) == num_devices:
                found.append((sum(load[device] for device in chosen), host, tuple(sorted(chosen))))
        if not found:
            raise ConfigurationError(self._explain(num_devices, who))
        _, host, devices = min(found)
        return host, devices

    def _explain(self, num_devices: int, who: str) -> str:
        sizes = [len(host.devices) for host in self._inventory]
        has = f"there are {' + '.join(map(str, sizes))} GPUs"
        if max(sizes) < num_devices:
            remedy = "lower training.num_ranks or generation.vllm.tensor_parallel_size, or set the device to cpu"
            return f"{_FIELD}: {who} needs {num_devices} GPUs of one host, and {has}: {remedy}"
        remedy = f"lower {_FIELD}.replicas or training.num_ranks, or set share to beside"
        return f"{_FIELD}.share apart: no {num_devices} free GPUs of one host are left for {who}, and {has}: {remedy}"

    def _load(self, host: int) -> Sequence[int]:
        return [self._taken[host, device] for device in range(len(self._inventory[host].devices))]


def _is_trained(config: RunConfig, names: Iterable[str]) -> bool:
    return any(config.policies[name].trained for name in names)


def _serving(config: RunConfig, model: str) -> str:
    """The served model on whose devices a trainer's model takes its turns."""
    policies = initial_models(config.policies)[model]
    return next(name for name, served in name_served_models(config).items() if policies[0] in served)
