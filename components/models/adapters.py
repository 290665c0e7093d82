"""LoRA adapters in a live module: several by name, one active at a time; their folders are in PEFT's format.

An adapter adds `alpha / rank * B A` to a linear layer's weight (arXiv 2106.09685, section 4.1). Layers of the
module are replaced in place, so that several adapters share one base.
"""

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.config import AdapterConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.machine.torch_state import building_a_model
from components.models.digests import join_digests, tensors_digest

if TYPE_CHECKING:
    from torch import Tensor, nn

ADAPTER_FOLDER = "adapter"
"""Inside a checkpoint folder: adapter_config.json and adapter_model.safetensors."""
_WEIGHTS_FILE = "adapter_model.safetensors"
_CONFIG_FILE = "adapter_config.json"
_FREEZE_A = "freeze_a"
"""In the configuration file, which PEFT and vLLM read without it, and in a live A that is not trained."""
_PREFIX = "base_model.model."
"""PEFT's prefix of module names in its files."""


def add_adapter(model: "nn.Module", policy: str, config: AdapterConfig, *, seed: int) -> None:
    """Add an adapter that changes nothing yet (B is 0) to `model`; A depends only on `seed` and the shapes.

    The base's parameters stop requiring gradients. Raises ConfigurationError if the model has none of the targets.
    """
    import peft

    lora = peft.LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,  # type: ignore[arg-type]  # PEFT divides it by the rank, so a float works
        target_modules=sorted(config.targets),
        lora_dropout=0.0,
        bias="none",
        task_type="CAUSAL_LM",
    )
    with building_a_model(seed), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a second adapter on one base is intended
        try:
            peft.inject_adapter_in_model(lora, model, module_name(policy))
        except ValueError as error:
            raise ConfigurationError(
                f"policies.{policy}.adapter.targets {list(config.targets)}: {error}; name linear layers of the base"
            ) from error
    _check_linear(model, policy)
    model.requires_grad_(False)
    _mark_frozen(model, policy, config.freeze_a)
    use_adapter(model, policy)


def _check_linear(model: "nn.Module", policy: str) -> None:
    """Raise ConfigurationError if an adapter is on another layer than a linear one, as PEFT has for embeddings and Conv1D: its
    tensors have other names and shapes, which no checkpoint would hold."""
    from torch import nn

    for layer in _list_adapted_layers(model):
        base = layer.get_base_layer()
        if not isinstance(base, nn.Linear):
            raise ConfigurationError(
                f"policies.{policy}.adapter.targets: one of them is a {type(base).__name__}; name linear layers of the base"
            )


def _mark_frozen(model: "nn.Module", policy: str, freeze_a: bool) -> None:
    """Note at the adapter's A whether it stays as it is, for `use_adapter`."""
    for layer in _list_adapted_layers(model):
        if module_name(policy) in layer.lora_A:
            setattr(layer.lora_A[module_name(policy)], _FREEZE_A, freeze_a)


def load_adapter(model: "nn.Module", policy: str, folder: Path) -> str:
    """Load the adapter in `folder` as that of `policy` in `model`, in place if there is one. Returns its digest.

    The digest is of the live tensors after the copy, or of the file's if the module computes in another type. Raises
    ArtifactCorrupt if the folder holds no adapter, or one with other layers or shapes.
    """
    import torch

    config = read_adapter_config(folder)
    if not has_adapter(model, policy):
        add_adapter(model, policy, config, seed=0)
    _mark_frozen(model, policy, config.freeze_a)
    stored = read_stored_adapter(folder)
    live = adapter_tensors(model, policy)
    if {name: tensor.shape for name, tensor in stored.items()} != {name: tensor.shape for name, tensor in live.items()}:
        raise ArtifactCorrupt(f"the adapter in {folder} has other layers or shapes than that of policy {policy!r}")
    with torch.no_grad():
        for name, tensor in live.items():
            tensor.copy_(stored[name])
    use_adapter(model, policy)
    same_types = all(live[name].dtype == tensor.dtype for name, tensor in stored.items())
    return tensors_digest(live if same_types else stored)


def read_stored_adapter(folder: Path) -> "dict[str, Tensor]":
    """The tensors of the adapter in `folder`, by their names there. Raises ArtifactCorrupt."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(folder / _WEIGHTS_FILE)
    except (OSError, SafetensorError) as error:
        raise ArtifactCorrupt(f"the adapter in {folder} cannot be read: {error}") from error


def write_adapter(tensors: "dict[str, Tensor]", config: AdapterConfig, folder: Path) -> None:
    """Write a folder that PEFT and vLLM can load. Equal tensors give equal bytes."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    values = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": config.rank,
        "lora_alpha": config.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(config.targets),
        "inference_mode": True,
        **({_FREEZE_A: True} if config.freeze_a else {}),
    }
    (folder / _CONFIG_FILE).write_text(json.dumps(values, indent=2, sort_keys=True), encoding="utf-8")
    contiguous = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(contiguous, folder / _WEIGHTS_FILE, metadata={"format": "pt"})


def read_adapter_config(folder: Path) -> AdapterConfig:
    """The shape of the adapter in `folder`. Raises ArtifactCorrupt."""
    try:
        values = json.loads((folder / _CONFIG_FILE).read_text(encoding="utf-8"))
        return AdapterConfig(
            rank=values["r"],
            alpha=values["lora_alpha"],
            targets=tuple(values["target_modules"]),
            freeze_a=values.get(_FREEZE_A, False),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArtifactCorrupt(f"{folder / _CONFIG_FILE} describes no adapter: {error}") from error


def adapter_tensors(model: "nn.Module", policy: str) -> "dict[str, Tensor]":
    """The live tensors of one adapter, by their names in its file.

    **Example** `model.layers.0.self_attn.q_proj.lora_A.<policy>.weight` is
    `base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight`, of shape [rank, inputs].
    """
    middle = f".{module_name(policy)}."
    return {
        _PREFIX + name.replace(middle, "."): parameter
        for name, parameter in model.named_parameters()
        if middle in name and re.search(r"\.lora_[AB]\.", name)
    }


def has_adapter(model: "nn.Module", policy: str) -> bool:
    """Whether `model` has an adapter of this policy."""
    return bool(adapter_tensors(model, policy))


def compute_adapted_digest(base_digest: str, adapter_digest: str) -> str:
    """The weights digest of a policy that is an adapter on a base."""
    return join_digests([base_digest, adapter_digest])


def use_adapter(model: "nn.Module", policy: str) -> None:
    """Activate this adapter in `model`. Only its tensors require gradients afterwards, without A if that is frozen."""
    name = module_name(policy)
    for layer in _list_adapted_layers(model):
        layer.set_adapter(name)
        if name in layer.lora_A and getattr(layer.lora_A[name], _FREEZE_A, False):
            layer.lora_A[name].requires_grad_(False)


@contextmanager
def base_alone(model: "nn.Module") -> Iterator[None]:
    """Disable all adapters of `model` inside."""
    layers = _list_adapted_layers(model)
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


def _list_adapted_layers(model: "nn.Module") -> list[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return [module for module in model.modules() if isinstance(module, BaseTunerLayer)]


def module_name(policy: str) -> str:
    """A module name for `policy`: letters, digits and underscores, different for each policy."""
    return "policy_" + re.sub(r"[^a-zA-Z0-9]", lambda each: f"_{ord(each[0]):x}_", policy)
