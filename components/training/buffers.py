"""Buffers that a model computes when it is built, such as rotary frequencies: they keep float32 whatever the weights have.

Casting a module to bfloat16, as DeepSpeed does too, casts them as well. A rotary frequency with 8 bits is off by radians after
a few hundred positions, and the trainer would disagree with every engine that computes its own.
"""

from collections.abc import Mapping

from torch import Tensor, nn


def computed_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Copies of the buffers that are not saved with the weights, by name."""
    saved = model.state_dict(keep_vars=True)
    return {name: buffer.clone() for name, buffer in model.named_buffers() if name not in saved}


def restore_buffers(model: nn.Module, buffers: Mapping[str, Tensor]) -> None:
    """Put `buffers` back with their own type, on the device where the model now has them."""
    for name, buffer in buffers.items():
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        held = getattr(owner, leaf)
        setattr(owner, leaf, buffer.to(held.device))
