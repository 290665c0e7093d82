"""An adapter's checkpoint as tensors, to be mixed with others and written again.

Names are the same for all policies, so that adapters of several can be compared tensor by tensor: those of PEFT for weights,
and for the optimizer those of its pieces (`optimizer_state.py`) with the file's name before them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from components.config import AdapterConfig
from components.errors import ArtifactCorrupt
from components.models.adapters import (
    ADAPTER_FOLDER,
    compute_adapted_digest,
    load_adapter,
    module_name,
    read_adapter_config,
    read_stored_adapter,
    write_adapter,
)
from components.models.digests import join_digests, tensors_digest
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER, CheckpointManifest
from components.training.checkpoint import NO_OPTIMIZER, compute_probe, load_model, read_manifest, write_manifest

_ANY = ".policy."
"""The place of the policy's name in names that all policies share."""
_COUNTS = "counts"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class AdapterState:
    """An adapter and its optimizer. `optimizer` is empty before the first update."""

    weights: Mapping[str, Tensor]
    shape: AdapterConfig
    base_digest: str
    optimizer: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def moments(self) -> dict[str, Tensor]:
        """The optimizer's tensors without its counts."""
        return {name: tensor for name, tensor in self.optimizer.items() if not name.endswith(f"/{_COUNTS}")}

    @property
    def counts(self) -> dict[str, Tensor]:
        """The optimizer's counts of steps, by file."""
        return {name: tensor for name, tensor in self.optimizer.items() if name.endswith(f"/{_COUNTS}")}

    @property
    def num_updates(self) -> int:
        """How many steps the optimizer has taken."""
        return max((int(tensor[-1]) for tensor in self.counts.values()), default=0)


def read_adapter_state(folder: Path, policy: str) -> AdapterState:
    """The state in a checkpoint folder of `policy`. Raises ArtifactCorrupt."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    manifest = read_manifest(folder)
    if manifest.base_digest is None:
        raise ArtifactCorrupt(f"{folder}: is no adapter's checkpoint")
    optimizer = {}
    try:
        for path in sorted((folder / TRAINING_FOLDER).glob("optimizer-*-of-*.safetensors")):
            for name, tensor in load_file(path).items():
                optimizer[f"{path.name}/{name.replace(f'.{module_name(policy)}.', _ANY)}"] = tensor
    except (OSError, SafetensorError) as error:
        raise ArtifactCorrupt(f"{folder / TRAINING_FOLDER} cannot be read: {error}") from error
    return AdapterState(
        weights=read_stored_adapter(folder / ADAPTER_FOLDER),
        shape=read_adapter_config(folder / ADAPTER_FOLDER),
        base_digest=manifest.base_digest,
        optimizer=optimizer,
    )


def write_adapter_checkpoint(
    state: AdapterState, policy: str, step: int, *, base_folder: Path, output_folder: Path
) -> CheckpointManifest:
    """Write `state` as the checkpoint of `policy` after `step` updates; `base_folder` holds the base model.

    `output_folder` must not exist. The digests are those that a trainer finds when it loads the checkpoint.
    """
    from safetensors.torch import save_file

    output_folder.mkdir(parents=True)
    write_adapter(dict(state.weights), state.shape, output_folder / ADAPTER_FOLDER)
    files: dict[str, dict[str, Tensor]] = {}
    for name, tensor in state.optimizer.items():
        file, key = name.split("/", 1)
        files.setdefault(file, {})[key.replace(_ANY, f".{module_name(policy)}.")] = tensor.contiguous()
    digests = []
    for file, tensors in sorted(files.items()):
        (output_folder / TRAINING_FOLDER).mkdir(exist_ok=True)
        save_file(tensors, output_folder / TRAINING_FOLDER / file)
        digests.append(tensors_digest(tensors))
    model = load_model(base_folder / MODEL_FOLDER)
    adapter_digest = load_adapter(model, policy, output_folder / ADAPTER_FOLDER)
    manifest = CheckpointManifest(
        policy=policy,
        step=step,
        weights_digest=compute_adapted_digest(state.base_digest, adapter_digest),
        optimizer_digest=join_digests(digests) if digests else NO_OPTIMIZER,
        probe=compute_probe(model),
        base_digest=state.base_digest,
    )
    write_manifest(output_folder, manifest)
    return manifest
