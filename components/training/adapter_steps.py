"""Gradients from elsewhere, applied to an adapter by an optimizer that remembers: Adam, on float32 copies of its tensors."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Literal

import torch
from torch import Tensor

from components.errors import ConfigurationError

Selection = Literal["frozen", "adaptive", "selective", "incremental"]
IMPORTANT_NORM = 0.05
"""selective: tensors whose gradient has at least this norm are stepped."""
MAX_GRAD_NORM = 1.0
_LAYER = re.compile(r"\.layers\.(\d+)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTaken:
    """What one step did. `gradient_norm` is that of the stepped tensors before clipping."""

    num_updates: int
    gradient_norm: float
    stepped: tuple[str, ...]


class AdapterSteps:
    """An adapter that learns from gradients by name, as PEFT saves its tensors.

    **Example** one tensor 0, gradient 1, learning rate .1: Adam's first step leads to -.1, whatever the gradient's size.
    """

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        """`tensors` are copied."""
        self._parameters = {
            name: torch.nn.Parameter(tensor.detach().to("cpu", torch.float32, copy=True))
            for name, tensor in sorted(tensors.items())
        }
        self._optimizer = torch.optim.Adam(self._parameters.values(), betas=(0.9, 0.95))
        self.num_updates = 0

    def tensors(self) -> dict[str, Tensor]:
        """Copies of the tensors as they are now."""
        return {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    def step(
        self, gradients: Mapping[str, Tensor], learning_rate: float, *, selection: Selection = "adaptive"
    ) -> StepTaken:
        """Take one step on the tensors that `selection` names of those with gradients. All is checked before any changes.

        Raises ConfigurationError for an unknown name, another shape, NaN or infinity, and a learning rate that is not above 0.
        """
        if not gradients:
            raise ConfigurationError("gradients: none; give one tensor or more, by the names of the adapter's tensors")
        given = {name: self._read_gradient(name, value) for name, value in gradients.items()}
        if not (learning_rate > 0 and isfinite(learning_rate)):
            raise ConfigurationError(f"learning_rate {learning_rate}: use a number above 0")
        stepped = select_tensors(selection, given, self.num_updates, all_names=self._parameters.keys())
        for name, parameter in self._parameters.items():
            parameter.grad = given[name].clone() if name in stepped else None
        norm = torch.nn.utils.clip_grad_norm_(self._parameters.values(), MAX_GRAD_NORM)
        if stepped:
            self._optimizer.param_groups[0]["lr"] = learning_rate
            self._optimizer.step()
            self.num_updates += 1
        return StepTaken(num_updates=self.num_updates, gradient_norm=float(norm), stepped=stepped)

    def _read_gradient(self, name: str, value: Tensor) -> Tensor:
        if name not in self._parameters:
            known = ", ".join(list(self._parameters)[:4])
            raise ConfigurationError(f"gradients[{name!r}]: the adapter has no such tensor; it has {known}, ...")
        gradient, shape = torch.as_tensor(value).detach().to("cpu", torch.float32), self._parameters[name].shape
        if gradient.shape != shape:
            raise ConfigurationError(f"gradients[{name!r}] of shape {list(gradient.shape)}: use {list(shape)}")
        if not bool(torch.isfinite(gradient).all()):
            raise ConfigurationError(f"gradients[{name!r}]: holds NaN or infinity; leave this update out")
        return gradient


def select_tensors(
    selection: Selection, gradients: Mapping[str, Tensor], num_updates: int, *, all_names: Collection[str]
) -> tuple[str, ...]:
    """The names to step: frozen none, adaptive all, selective those with a gradient of norm .05 or more, incremental those in
    the last `num_updates + 1` layers.

    **Example** incremental, 4 layers, second update: the tensors of layers 3 and 2.
    """
    if selection == "frozen":
        return ()
    if selection == "selective":
        return tuple(name for name, each in sorted(gradients.items()) if float(each.norm()) >= IMPORTANT_NORM)
    if selection == "incremental":
        lowest = max(map(_layer, all_names)) - num_updates
        return tuple(name for name in sorted(gradients) if _layer(name) >= lowest)
    return tuple(sorted(gradients))


def _layer(name: str) -> int:
    found = _LAYER.search(name)
    return int(found[1]) if found else 0
