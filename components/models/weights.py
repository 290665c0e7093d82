"""Loading model folders: a full build for a new architecture, a copy in place for new weights of the same one."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError
from components.models.buffers import cast
from components.models.digests import model_digest, model_tensors, tensors_digest
from components.models.stored_models import EXACT_BASES, load_stored_model
from components.schema import PolicyVersion

_NOT_ARCHITECTURE = ("transformers_version", "_name_or_path", "torch_dtype", "dtype")


def architecture_of(folder: Path) -> dict[str, Any]:
    """The part of `config.json` that two folders must share to fit one module. Raises ArtifactMissing or ArtifactCorrupt."""
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ArtifactMissing(f"{folder} is not a model folder: it has no config.json") from error
    except ValueError as error:
        raise ArtifactCorrupt(f"{folder / 'config.json'} is not JSON: {error}") from error
    return {key: value for key, value in config.items() if key not in _NOT_ARCHITECTURE}


def read_stored_tensors(folder: Path) -> dict[str, torch.Tensor]:
    """The tensors in the safetensors files of a folder, by name. Raises ArtifactMissing or ArtifactCorrupt."""
    tensors: dict[str, torch.Tensor] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            tensors |= load_file(file)
    except (OSError, SafetensorError) as error:
        raise ArtifactCorrupt(f"the weights in {folder} cannot be read: {error}") from error
    if not tensors:
        raise ArtifactMissing(f"{folder} holds no *.safetensors")
    return tensors


def check_weights(folder: Path, digest: str, version: PolicyVersion) -> None:
    """Raise ArtifactCorrupt unless `digest`, of the weights in `folder`, is that of `version`."""
    if digest != version.weights_digest:
        raise ArtifactCorrupt(
            f"the weights in {folder} have digest {digest[:16]}, not {version.weights_digest[:16]} of policy "
            f"{version.policy!r} at step {version.step}"
        )


def build_tiny_model(folder: Path, *, device: str, dtype: torch.dtype) -> tuple[Any, str]:
    """The model in `folder`, ready for inference, and the digest of its weights as stored.

    Raises what `load_stored_model` raises, and ConfigurationError for a model that the in-process engine does not compute.
    """
    model = load_stored_model(folder)
    kinds = set(getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        raise ConfigurationError(
            f"{type(model).__name__} in {folder} has {sorted(kinds)} layers; the transformers engine separates candidates by "
            f"a mask over full attention: {EXACT_BASES}, or set generation.engine to vllm"
        )
    digest = model_digest(model)
    return cast(model, dtype).to(device).requires_grad_(False), digest


def refresh_model(model: Any, folder: Path) -> str | None:
    """Copy the weights in `folder` into `model`; returns their digest, or None, with nothing copied, if the shapes differ.

    The digest is over the module's tensors after the copy, or over the stored ones if the module has another dtype.
    """
    stored, live = read_stored_tensors(folder), model_tensors(model)
    if {name: tensor.shape for name, tensor in stored.items()} != {name: tensor.shape for name, tensor in live.items()}:
        return None
    with torch.inference_mode():
        for name, tensor in live.items():
            tensor.copy_(stored[name])
    same_types = all(live[name].dtype == tensor.dtype for name, tensor in stored.items())
    return tensors_digest(live if same_types else stored)
