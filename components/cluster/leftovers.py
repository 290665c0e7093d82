"""What runs have left on a Ray cluster."""

import logging
from contextlib import suppress

from components.errors import ServiceMissing
from components.generation.vllm.cluster_servers import NAMESPACE


def remove_leftovers(address: str) -> list[str]:
    """Give up all placement groups and actors of Troupe on the cluster at `address`; their names. This host must be one of it.

    What others hold there is in namespaces of their own. Raises ServiceMissing if Ray cannot be joined.
    """
    import ray
    from ray.util import list_named_actors
    from ray.util.placement_group import get_placement_group, placement_group_table, remove_placement_group

    try:
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError) as error:
        raise ServiceMissing(f"Ray at {address}: {error}; give the command on a host of the cluster") from error
    removed = []
    try:
        for name in sorted({str(group["name"]) for group in placement_group_table().values()} - {""}):
            with suppress(ValueError):  # removed already, or of another namespace
                remove_placement_group(get_placement_group(name))
                removed.append(name)
        for actor in list_named_actors(all_namespaces=True):
            if actor["namespace"] == NAMESPACE:
                with suppress(ValueError):  # gone with its group
                    ray.kill(ray.get_actor(actor["name"], namespace=NAMESPACE))
                    removed.append(actor["name"])
    finally:
        ray.shutdown()
    return removed
