"""Gradient checkpointing: a layer keeps only its inputs, and recomputes its activations in the backward pass."""

from typing import Any

from torch import nn

from components.errors import ConfigurationError


def recompute_activations(model: nn.Module) -> None:
    """Make every layer of a Hugging Face `model` recompute (arXiv 1604.06174); results do not change. Idempotent.

    Raises ConfigurationError when the model does not support it.
    """
    from transformers.modeling_layers import GradientCheckpointingLayer

    layers = [module for module in model.modules() if isinstance(module, GradientCheckpointingLayer)]
    if not layers or not getattr(model, "supports_gradient_checkpointing", False):
        raise ConfigurationError(
            f"training.gradient_checkpointing True: {type(model).__name__} has no layers that can recompute "
            "activations; set it to False, or choose a base that has"
        )
    if not all(layer.gradient_checkpointing for layer in layers):
        # The reentrant kind drops the gradients of a layer whose input needs none, as after a frozen embedding.
        transformers_model: Any = model
        transformers_model.activation_checkpointing_enable({"use_reentrant": False})
    for layer in layers:
        _count_as_training(layer)


def _count_as_training(layer: nn.Module) -> None:
    """Set training mode, without which a layer does not recompute, but not for its submodules, and with dropout 0."""
    layer.training = True
    for name, value in vars(layer).items():
        if "dropout" in name and isinstance(value, float):
            setattr(layer, name, 0.0)
