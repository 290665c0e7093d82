"""Gradient checkpointing: a layer keeps its inputs alone, and computes its activations again in the backward pass."""

from typing import Any

from torch import nn

from components.errors import ConfigurationError


def recompute_activations(model: nn.Module) -> None:
    """Let every layer of a Hugging Face `model` recompute (arXiv 1604.06174), with results as they were. May be repeated.

    Memory of activations falls from all that a layer computes to its input; the backward pass costs another forward. Raises
    ConfigurationError when the model has no layers that can.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers or not getattr(model, "supports_gradient_checkpointing", False):
        raise ConfigurationError(
            f"training.gradient_checkpointing True: {type(model).__name__} has no layers that can compute their activations "
            "again; set it to False, or choose a base that has"
        )
    if not all(layer.gradient_checkpointing for layer in layers):
        # Not the reentrant kind: it drops the gradients of a layer whose input needs none, as under a frozen embedding.
        transformers_model: Any = model
        transformers_model.activation_checkpointing_enable({"use_reentrant": False})
    for layer in layers:
        _count_as_training(layer)


def _count_as_training(layer: nn.Module) -> None:
    """A layer recomputes in training mode alone. Its parts stay in evaluation mode; its own rates of dropout become 0."""
    layer.training = True
    for name, value in vars(layer).items():
        if "dropout" in name and isinstance(value, float):
            setattr(layer, name, 0.0)
