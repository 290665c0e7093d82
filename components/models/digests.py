"""Digests of tensors: equal weights have equal digests, in any file format."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from components.identity import canonical_json

CRITICS = "value_heads."
"""How names of parameters begin that are no part of a policy (`value_head`)."""

if TYPE_CHECKING:
    import torch


def tensors_digest(tensors: Mapping[str, "torch.Tensor"]) -> str:
    """The SHA-256 over names, types, shapes and bytes, sorted by name."""
    import torch

    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().to("cpu").contiguous()
        digest.update(canonical_json([name, str(tensor.dtype), list(tensor.shape)]))
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b"")
    return digest.hexdigest()


def join_digests(digests: Iterable[str]) -> str:
    """One digest of several in order, for example of the ranks that hold parts of an optimizer."""
    return hashlib.sha256(canonical_json(list(digests))).hexdigest()


def model_tensors(model: "torch.nn.Module") -> dict[str, "torch.Tensor"]:
    """A model's parameters and persistent buffers by name, without critics; one with two names (a tied head) appears once."""
    parameters = {name: tensor for name, tensor in model.named_parameters() if not name.startswith(CRITICS)}
    persistent = model.state_dict(keep_vars=True)
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in persistent}
    return {**parameters, **buffers}


def model_digest(model: "torch.nn.Module") -> str:
    """`tensors_digest` of `model_tensors`: the digest that names a policy's weights."""
    return tensors_digest(model_tensors(model))
