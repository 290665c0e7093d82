"""The sizes of a base, from its config.json alone: a model without memory is built and counted."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.config import AdapterConfig, PolicyConfig
from components.machine.torch_state import building_a_model
from components.models.memory import ModelNumbers

_SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "tie_word_embeddings": True,
}


def model_sizes(policies: Sequence[PolicyConfig]) -> ModelNumbers | None:
    """The sizes of the base that `policies` share; None for a "tiny" one, and for one whose config.json is not here."""
    if (built := _model_without_memory(policies[0].base)) is None:
        return None
    model, config = built
    num_parameters = sum(parameter.numel() for parameter in model.parameters())
    trained = [policy for policy in policies if policy.trained]
    text = config.get_text_config()
    heads = int(text.num_attention_heads)
    head_width = getattr(text, "head_dim", None) or text.hidden_size // heads
    return ModelNumbers(
        num_parameters=num_parameters,
        num_trained=sum(_num_adapted(model, each.adapter) if each.adapter else num_parameters for each in trained),
        hidden_size=int(text.hidden_size),
        intermediate_size=int(getattr(text, "intermediate_size", None) or 4 * text.hidden_size),
        num_layers=int(text.num_hidden_layers),
        key_value_width=int(head_width * (getattr(text, "num_key_value_heads", None) or heads)),
        vocabulary_size=int(text.vocab_size),
        adapted=policies[0].adapter is not None,
    )


def linear_layers(base: str) -> frozenset[str] | None:
    """The last parts of the names of a base's linear layers, which adapters can change; None where `model_sizes` is None."""
    if (built := _model_without_memory(base)) is None:
        return None
    from torch import nn

    model, _ = built
    return frozenset(name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear))


def _model_without_memory(base: str) -> tuple[Any, Any] | None:
    """A model of the base's shape and its configuration."""
    config = _config(base)
    if config is None:
        return None
    import torch
    from transformers import AutoModelForCausalLM

    with building_a_model(), torch.device("meta"):
        return AutoModelForCausalLM.from_config(config), config


def _config(base: str) -> Any:
    from huggingface_hub import snapshot_download
    from transformers import AutoConfig, LlamaConfig

    if base == "tiny":
        return None
    if base == "smollm2-135m":
        return LlamaConfig(**_SMOLLM2)
    folder = Path(base)
    try:
        if not folder.is_dir():
            folder = Path(snapshot_download(base, allow_patterns=["config.json"], local_files_only=True))
        return AutoConfig.from_pretrained(folder)
    except (OSError, ValueError):
        return None  # nothing to estimate from; a base that is needed and unusable is refused by `check_base`


def _num_adapted(model: Any, adapter: AdapterConfig) -> int:
    from torch import nn

    layers = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in adapter.targets
    ]
    return sum(adapter.rank * (layer.in_features + layer.out_features) for layer in layers)
