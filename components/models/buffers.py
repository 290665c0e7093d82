"""Computed buffers of a model, such as rotary frequencies, which stay in float32 whatever type the weights have.

Casting a module to bfloat16 casts them too; a rotary frequency with 8 bits is off by radians after a few hundred positions.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn


def cast(model: "nn.Module", dtype: "torch.dtype") -> "nn.Module":
    """`model`, in place, with weights of `dtype` and its computed buffers as they are."""
    buffers = compute_buffers(model)
    model.to(dtype)
    restore_buffers(model, buffers)
    return model


def compute_buffers(model: "nn.Module") -> "dict[str, Tensor]":
    """Copies of the buffers that are not saved with the weights, by name."""
    saved = model.state_dict(keep_vars=True)
    return {name: buffer.clone() for name, buffer in model.named_buffers() if name not in saved}


def restore_buffers(model: "nn.Module", buffers: "Mapping[str, Tensor]") -> None:
    """Restore `buffers` with their own type, on the model's current device."""
    for name, buffer in buffers.items():
        path, _, leaf = name.rpartition(".")
        owner = model.get_submodule(path)
        held = getattr(owner, leaf)
        setattr(owner, leaf, buffer.to(held.device))
