"""Adapters for tests: two target layers, float32, seeded."""

import torch

from components.population.adapters import Adapter, adapter_from_factors

SIZES = {"layers.0.q_proj": (6, 8), "layers.0.v_proj": (5, 8)}
"""Outputs and inputs of each target."""


def adapter(seed: int, *, rank: int = 2, a_seed: int | None = None, base: str = "base", scale: float = 2.0) -> Adapter:
    """A random adapter. Those with one `a_seed` share A."""
    draw = torch.Generator().manual_seed(seed)
    draw_a = torch.Generator().manual_seed(1000 + seed if a_seed is None else a_seed)
    factors = {
        target: (torch.randn(rank, inputs, generator=draw_a), torch.randn(outputs, rank, generator=draw))
        for target, (outputs, inputs) in SIZES.items()
    }
    return adapter_from_factors(base, scale, factors)
