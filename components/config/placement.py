"""The part `placement` of the section `resources`: which device each worker has."""

from typing import Literal

from pydantic import Field

from components.frozen import Settings


class PlacementConfig(Settings):
    share: Literal["beside", "apart", "turns"] = "beside"
    """Whether workers share GPUs. beside: where there are fewer GPUs than workers, if memory allows it; apart: never; turns,
    which is not offered yet: a model's engine sleeps while its trainer works on the same GPU."""
    replicas: int = Field(1, ge=1)
    """vLLM servers per model, behind one router. A model is a policy with full weights, or a base that adapters share."""
    memory_fraction: float | None = Field(None, gt=0.0, le=1.0)
    """Of each of its GPUs, for a vLLM server's weights and cache. None: 0.9 of a GPU of its own, 0.5 of one that it shares."""
    ranks: Literal["pack", "spread"] = "pack"
    """Whether the ranks of a model's update are all on one host, or each on another."""
