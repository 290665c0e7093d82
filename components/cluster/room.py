"""What the connected cluster has, and which part of a GPU each worker asks it for."""

from typing import Any

from components.config import RunConfig
from components.errors import ConfigurationError
from components.placement.inventory import Device, Host, Inventory
from components.placement.plan import Kind, plan


def read_cluster() -> Inventory:
    """The living nodes with their GPUs, whose memory Ray does not tell."""
    import ray

    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return tuple(
        Host(
            name=node["NodeManagerHostname"],
            devices=tuple(
                Device(name=str(number), num_bytes=0) for number in range(int(node["Resources"].get("GPU", 0)))
            ),
        )
        for node in nodes
        if node["Alive"]
    )


def share_gpus(config: RunConfig, kind: Kind, model: str) -> float:
    """The part of each of its GPUs that a worker of `model` asks for: 1, or less where there are fewer GPUs than workers.

    **Example** one GPU, one server, one rank: 0.5 each. Raises ConfigurationError if the cluster has no room for the run.
    """
    placed = plan(config, read_cluster())
    workers = placed.select(kind, model)
    most = max((1 + len(placed.list_beside(worker)) for worker in workers), default=1)
    if most > 1 and kind == "engine" and len(workers[0].devices) > 1:
        raise ConfigurationError(
            "resources.placement: the cluster has fewer GPUs than workers, and a server on several GPUs shares none of them "
            "there; lower resources.placement.replicas or training.num_ranks, or add GPUs"
        )
    return 1.0 / most
