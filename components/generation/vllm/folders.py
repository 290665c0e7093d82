"""Weights on disk, before a server loads them: their digests, and private copies that do not change."""

import shutil
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import save_file

from components.errors import ArtifactCorrupt
from components.models.adapters import compute_adapted_digest, read_adapter_config
from components.models.digests import model_digest, tensors_digest
from components.models.stored_models import load_stored_model
from components.models.weights import architecture_of, check_weights, read_stored_tensors
from components.schema import PolicyVersion

_PREFIX = "base_model.model."


def check_base_folder(folder: Path, version: PolicyVersion, adapter: Path | None) -> str:
    """The digest of the weights in `folder`. Raises ArtifactCorrupt unless they, with `adapter` on them, are `version`."""
    architecture_of(folder)
    expected = version.weights_digest if adapter is None else None
    base = _digest(folder.resolve(), _stamp(folder), expected)
    found = base if adapter is None else compute_adapted_digest(base, tensors_digest(read_stored_tensors(adapter)))
    check_weights(adapter or folder, found, version)
    return base


def merge_into_folder(folder: Path, adapter: Path, into: Path) -> Path:
    """A model folder at `into` whose weights are W + alpha / rank * B A (arXiv 2106.09685, section 4.1), in W's type."""
    if not into.exists():
        unfinished = _copy_unfinished(folder, into, "*.safetensors", "*.safetensors.index.json")
        save_file(merge_tensors(folder, adapter), unfinished / "model.safetensors", metadata={"format": "pt"})
        unfinished.rename(into)
    return into


def _copy_unfinished(folder: Path, into: Path, *ignored: str) -> Path:
    """A copy of `folder` beside `into`, without the files that match `ignored`."""
    unfinished = into.with_name(f"{into.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    return Path(shutil.copytree(folder, unfinished, ignore=shutil.ignore_patterns(*ignored)))


def merge_tensors(folder: Path, adapter: Path) -> dict[str, torch.Tensor]:
    """The base's tensors with the adapter's updates added, computed in float32."""
    merged, update = read_stored_tensors(folder), read_stored_tensors(adapter)
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
    """Of the file's tensors; if not `expected`, of the module's, where tied tensors have one name."""
    found = tensors_digest(read_stored_tensors(folder))
    if expected is None or found == expected:
        return found
    return model_digest(load_stored_model(folder))


def _stamp(folder: Path) -> tuple[tuple[str, int, int], ...]:
    """Changes when new weights are written into the folder."""
    found = [(file.name, file.stat()) for file in sorted(folder.glob("*.safetensors"))]
    return tuple((name, stat.st_mtime_ns, stat.st_size) for name, stat in found)
