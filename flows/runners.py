"""Where a flow's submitted tasks run: in threads of this process, or on a Ray cluster."""

from typing import Any

from components.config import ResourceConfig
from components.errors import ServiceMissing


def task_runner(resources: ResourceConfig) -> Any:
    """Prefect's task runner for `resources`. Raises ServiceMissing when prefect-ray is not installed."""
    if resources.runner == "ray":
        try:
            from prefect_ray import RayTaskRunner
        except ImportError as error:
            raise ServiceMissing("resources.runner ray needs prefect-ray: `pip install 'troupe[ray]'`") from error
        return RayTaskRunner(address=resources.ray_address)
    from prefect.task_runners import ThreadPoolTaskRunner

    return ThreadPoolTaskRunner(max_workers=resources.max_shards_at_once + resources.max_updates_at_once)
