"""The sizes of a base, from its config.json alone."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from components.config import AdapterConfig, PolicyConfig
from components.errors import ConfigurationError
from components.machine.torch_state import building_a_model
from components.models.decoder_sizes import KNOWN, count_adapted, count_parameters, is_common_decoder, read_head_width
from components.models.memory import ModelNumbers


def model_sizes(policies: Sequence[PolicyConfig]) -> ModelNumbers | None:
    """The sizes of the base that `policies` share; None for a "tiny" one, and for one whose config.json is not here.

    Raises ConfigurationError for a base that is no causal language model.

    A common decoder is counted by its config.json; of others a model without memory is built, which takes seconds of imports.
    """
    values = _read_config(policies[0].base)
    trained = [policy for policy in policies if policy.trained]
    if values is not None and is_common_decoder(values):
        num_parameters = count_parameters(values)
        adapters = [policy.adapter for policy in trained if policy.adapter]
        num_trained = count_adapted(values, adapters) + num_parameters * (len(trained) - len(adapters))
    elif (built := _model_without_memory(policies[0].base)) is None:
        return None
    else:
        model, config = built
        values = _read_sizes(config.get_text_config())
        num_parameters = sum(parameter.numel() for parameter in model.parameters())
        num_trained = sum(_num_adapted(model, each.adapter) if each.adapter else num_parameters for each in trained)
    heads = int(values["num_attention_heads"])
    return ModelNumbers(
        num_parameters=num_parameters,
        num_trained=num_trained,
        hidden_size=int(values["hidden_size"]),
        intermediate_size=int(values.get("intermediate_size") or 4 * values["hidden_size"]),
        num_layers=int(values["num_hidden_layers"]),
        key_value_width=int(read_head_width(values) * (values.get("num_key_value_heads") or heads)),
        vocabulary_size=int(values["vocab_size"]),
        adapted=policies[0].adapter is not None,
    )


def linear_layers(base: str) -> frozenset[str] | None:
    """The last parts of the names of a base's linear layers, which adapters can change; None where `model_sizes` is None."""
    if (built := _model_without_memory(base)) is None:
        return None
    from torch import nn

    model, _ = built
    return frozenset(name.rpartition(".")[2] for name, module in model.named_modules() if isinstance(module, nn.Linear))


_SIZES = (
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "vocab_size",
)


def _read_sizes(config: Any) -> dict[str, Any]:
    """The sizes by their usual names, which some kinds spell otherwise: GPT-2 has n_head."""
    return {name: value for name in _SIZES if (value := getattr(config, name, None)) is not None}


def _model_without_memory(base: str) -> tuple[Any, Any] | None:
    """A model of the base's shape and its configuration."""
    config = _config(base)
    if config is None:
        return None
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with building_a_model(), torch.device("meta"):
            return AutoModelForCausalLM.from_config(config), config
    except ValueError as error:
        raise ConfigurationError(
            f"base {base!r}: {config.model_type} is no causal language model that transformers knows; name another base"
        ) from error


def _config(base: str) -> Any:
    from transformers import AutoConfig

    values = _read_config(base)
    if values is None:
        return None
    try:
        return AutoConfig.for_model(**values)
    except (ValueError, TypeError):
        return None  # nothing to estimate from; a base that is needed and unusable is refused by `check_base`


def _read_config(base: str) -> Mapping[str, Any] | None:
    """The config.json of a base, from its folder, from the hub's copies on this machine, or as far as it is known."""
    file = Path(base) / "config.json"
    if base == "tiny":
        return None
    if not os.path.isfile(file) and not os.path.isdir(base) and base not in KNOWN:
        from huggingface_hub import try_to_load_from_cache
        from huggingface_hub.errors import HFValidationError

        try:
            found = try_to_load_from_cache(base, "config.json")
        except HFValidationError:
            return None
        file = Path(found) if isinstance(found, str) else file
    try:
        return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else KNOWN.get(base)
    except (OSError, ValueError):
        return None


def _num_adapted(model: Any, adapter: AdapterConfig) -> int:
    from torch import nn

    layers = [
        module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.rpartition(".")[2] in adapter.targets
    ]
    return sum(adapter.rank * (layer.in_features + layer.out_features) for layer in layers)
