"""A critic as one linear layer on a policy's last hidden states: what is expected to be earned from a prompt on.

The heads of several policies may be in one module, as adapters are; one is trained at a time. A head is no part of a policy's
weights, which engines read: it is kept with the optimizer.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from components.models.adapters import module_name
from components.models.digests import CRITICS

if TYPE_CHECKING:
    from torch import Tensor, nn

_HEADS = CRITICS.removesuffix(".")


def add_value_head(model: "nn.Module", policy: str) -> None:
    """Give `model` a head for `policy` that expects 0 everywhere, in place of one that is there, and train no other head."""
    import torch
    from torch import nn

    if not hasattr(model, _HEADS):
        model.add_module(_HEADS, nn.ModuleDict())
    parameter = next(model.parameters())
    head = nn.Linear(model.config.hidden_size, 1, device=parameter.device, dtype=parameter.dtype)  # type: ignore[union-attr,arg-type]
    with torch.no_grad():
        for tensor in head.parameters():
            tensor.zero_()
    _heads(model)[module_name(policy)] = head
    use_value_head(model, policy)


def use_value_head(model: "nn.Module", policy: str) -> None:
    """Only the head of `policy` requires gradients among the heads afterwards."""
    for name, head in _heads(model).items():
        head.requires_grad_(name == module_name(policy))


def is_value_head(name: str) -> bool:
    """Whether a parameter of this name is a head's. **Example** "value_heads.policy_first.weight": True."""
    return name.startswith(CRITICS)


def predict_values(model: "nn.Module", policy: str, hidden: "Tensor") -> "Tensor":
    """What the head of `policy` expects at each of the hidden states [C, width], float32 [C]."""
    values: Tensor = _heads(model)[module_name(policy)](hidden)
    return values[:, 0].float()


@contextmanager
def hidden_states(model: "nn.Module") -> "Iterator[list[Tensor]]":
    """Inside, each forward of `model` appends the hidden states from which it computes logits, [C, width]."""
    caught: list[Tensor] = []

    def catch(_: Any, arguments: tuple[Any, ...]) -> None:
        caught.append(arguments[0].reshape(-1, arguments[0].shape[-1]))

    handle = model.get_output_embeddings().register_forward_pre_hook(catch)  # type: ignore[operator]
    try:
        yield caught
    finally:
        handle.remove()


def _heads(model: "nn.Module") -> Any:
    return getattr(model, _HEADS)
