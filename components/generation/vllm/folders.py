"""The weights on disk before a server is sent to them: their digests, and folders that stay as they are."""

import shutil
from functools import lru_cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from components.artifacts.adapters import adapted_digest, read_adapter_config
from components.artifacts.digests import tensors_digest
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.generation.weights import architecture_of, built_model
from components.schema import PolicyVersion

_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_PREFIX = "base_model.model."


def checked_base(folder: Path, version: PolicyVersion, adapter: Path | None) -> str:
    """The digest of the weights in `folder`. Raises ArtifactCorrupt unless they, with `adapter` on them, are `version`."""
    architecture_of(folder)
    expected = version.weights_digest if adapter is None else None
    base = _digest(folder.resolve(), _stamp(folder), expected)
    found = base if adapter is None else adapted_digest(base, tensors_digest(_tensors(adapter)))
    if found != version.weights_digest:
        raise ArtifactCorrupt(
            f"the weights in {adapter or folder} have digest {found[:16]}, not {version.weights_digest[:16]} of policy "
            f"{version.policy!r} at step {version.step}"
        )
    return base


def kept_adapter(adapter: Path, into: Path) -> Path:
    """A copy of the adapter's folder at `into`, which nobody else changes: a server may read it again at any time."""
    if not into.exists():
        unfinished = into.with_name(f"{into.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for name in _ADAPTER_FILES:
            shutil.copyfile(adapter / name, unfinished / name)
        unfinished.rename(into)
    return into


def merged_folder(folder: Path, adapter: Path, into: Path) -> Path:
    """A model folder at `into` whose weights are W + alpha / rank * B A (arXiv 2106.09685, section 4.1), in W's type."""
    if into.exists():
        return into
    unfinished = into.with_name(f"{into.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(folder, unfinished, ignore=shutil.ignore_patterns("*.safetensors", "*.safetensors.index.json"))
    save_file(merged_tensors(folder, adapter), unfinished / "model.safetensors", metadata={"format": "pt"})
    unfinished.rename(into)
    return into


def merged_tensors(folder: Path, adapter: Path) -> dict[str, torch.Tensor]:
    """The base's tensors with the adapter's updates added, computed in float32."""
    merged, update = _tensors(folder), _tensors(adapter)
    shape = read_adapter_config(adapter)
    for name in [name for name in update if name.endswith(".lora_A.weight")]:
        layer = name.removeprefix(_PREFIX).removesuffix(".lora_A.weight")
        a, b = update[name].float(), update[name.replace(".lora_A.", ".lora_B.")].float()
        weight = merged.get(f"{layer}.weight")
        if weight is None or weight.shape != (b.shape[0], a.shape[1]):
            raise ArtifactCorrupt(f"the adapter in {adapter} changes {layer}, which does not fit the model in {folder}")
        merged[f"{layer}.weight"] = (weight.float() + shape.alpha / shape.rank * (b @ a)).to(weight.dtype)
    return merged


@lru_cache(maxsize=16)
def _digest(folder: Path, stamp: tuple[tuple[str, int, int], ...], expected: str | None) -> str:
    """Of the file's tensors; where they are not the expected ones, of the module's, which may know them by fewer names."""
    found = tensors_digest(_tensors(folder))
    if expected is None or found == expected:
        return found
    return built_model(folder, device="cpu", dtype=torch.float32)[1]


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    try:
        for file in sorted(folder.glob("*.safetensors")):
            tensors |= load_file(file)
    except (OSError, SafetensorError) as error:
        raise ArtifactCorrupt(f"the weights in {folder} cannot be read: {error}") from error
    if not tensors:
        raise ArtifactMissing(f"{folder} holds no *.safetensors")
    return tensors


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """What changes when somebody writes new weights into the folder."""
    found = [(file.name, file.stat()) for file in sorted(folder.glob("*.safetensors"))]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)
