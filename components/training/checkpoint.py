"""Checkpoint folders: a model folder, the optimizer state, and `checkpoint.json`, written last.

<folder>/checkpoint.json     CheckpointManifest: digests and the probe
<folder>/model/              Hugging Face model folder with its tokenizer; for an adapter its base, stored separately
<folder>/adapter/            PEFT adapter folder, if the policy is an adapter
<folder>/training/           optimizer state; absent before the first optimizer step
"""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import torch
from pydantic import ValidationError
from torch import nn

from components.config import AdapterConfig, TrainingConfig
from components.errors import ArtifactCorrupt
from components.identity import GroupKey
from components.models.adapters import (
    ADAPTER_FOLDER,
    adapter_tensors,
    add_adapter,
    compute_adapted_digest,
    write_adapter,
)
from components.models.digests import model_digest, tensors_digest
from components.models.stored_models import load_stored_model
from components.schema import TrainGroup
from components.training.architectures import check_attention, check_trainable, replace_where_exact
from components.training.base import MANIFEST_FILE, MODEL_FOLDER, CheckpointManifest, Probe
from components.training.forward import completion_logprobs
from components.training.packing import pack_groups

NO_OPTIMIZER = hashlib.sha256(b"no optimizer yet").hexdigest()
"""The optimizer digest of a policy that has not been trained."""

_PROBE_PROMPT_TOKENS = 16
_PROBE_COMPLETION_TOKENS = 8
_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.gguf", "*.pt")


def write_initial_checkpoint(
    model_folder: Path, output_folder: Path, policy: str, *, training: TrainingConfig | None = None
) -> CheckpointManifest:
    """The checkpoint of step 0: a copy of `model_folder` and a manifest. `output_folder` must not exist.

    The weights digest is over the stored tensors, in their stored type. Raises what `load_trainable` raises if `training` is
    given; without, for a policy that stays as it is, what `load_model` raises.
    """
    model = _load(model_folder, training)
    output_folder.mkdir(parents=True)
    shutil.copytree(model_folder, output_folder / MODEL_FOLDER)
    return _initial_manifest(output_folder, policy, model, weights_digest=model_digest(model))


def write_initial_adapter(
    model_folder: Path,
    output_folder: Path,
    policy: str,
    *,
    adapter: AdapterConfig,
    seed: int,
    training: TrainingConfig | None = None,
) -> CheckpointManifest:
    """The checkpoint of step 0 of an adapter on the model in `model_folder`, which is not copied.

    The adapter starts as the identity. `output_folder` must not exist. Raises as `write_initial_checkpoint` does.
    """
    model = _load(model_folder, training)
    output_folder.mkdir(parents=True)
    base_digest = model_digest(model)
    add_adapter(model, policy, adapter, seed=seed)
    tensors = adapter_tensors(model, policy)
    write_adapter(tensors, adapter, output_folder / ADAPTER_FOLDER)
    digest = compute_adapted_digest(base_digest, tensors_digest(tensors))
    return _initial_manifest(output_folder, policy, model, weights_digest=digest, base_digest=base_digest)


def _load(folder: Path, training: TrainingConfig | None) -> nn.Module:
    return load_model(folder) if training is None else load_trainable(folder, training=training)


def _initial_manifest(
    folder: Path, policy: str, model: nn.Module, *, weights_digest: str, base_digest: str | None = None
) -> CheckpointManifest:
    manifest = CheckpointManifest(
        policy=policy,
        step=0,
        weights_digest=weights_digest,
        optimizer_digest=NO_OPTIMIZER,
        probe=compute_probe(model),
        base_digest=base_digest,
    )
    write_manifest(folder, manifest)
    return manifest


def load_model(folder: Path) -> nn.Module:
    """The causal language model in `folder`, in its stored type, without dropout.

    Raises ConfigurationError when there is no such folder or the model takes no mask from the trainer, ArtifactCorrupt when it
    cannot be read.
    """
    model: nn.Module = load_stored_model(folder)
    check_attention(model)
    replace_where_exact(model)
    return model


def load_trainable(folder: Path, *, training: TrainingConfig) -> nn.Module:
    """`load_model`, also checked for training. Raises ConfigurationError for a model that packed rows would train wrongly."""
    model = load_model(folder)
    check_trainable(model, share_prompts=training.share_prompts, longest_row=training.tokens_per_micro_batch)
    return model


def compute_probe(model: nn.Module, *, vocabulary_size: int | None = None) -> Probe:
    """The trainer's log-probabilities of 8 fixed tokens after 16 fixed ones, at temperature 1.

    `vocabulary_size` is the model's own unless given. Every rank of a partitioned model must call this.
    """
    size = vocabulary_size if vocabulary_size is not None else int(model.config.vocab_size)  # type: ignore[union-attr,arg-type]
    tokens = tuple((7 * index + 3) % size for index in range(_PROBE_PROMPT_TOKENS + _PROBE_COMPLETION_TOKENS))
    prompt, completion = tokens[:_PROBE_PROMPT_TOKENS], tokens[_PROBE_PROMPT_TOKENS:]
    group = TrainGroup(
        group=GroupKey(problem_id="probe", episode=0, turn=0, agent="probe"),
        prompt_tokens=prompt,
        completions_K_T=(completion,),
        sampler_logprobs_K_T=(tuple(np.zeros(len(completion))),),
        advantages_K=(0.0,),
    )
    (micro_batch,) = pack_groups([group], tokens_per_micro_batch=len(tokens), share_prompts=True)
    with torch.no_grad():
        logprobs = completion_logprobs(model, micro_batch, temperature=1.0)
    return Probe(prompt_tokens=prompt, completion_tokens=completion, trainer_logprobs=tuple(logprobs.tolist()))


def read_manifest(folder: Path) -> CheckpointManifest:
    """`checkpoint.json` of `folder`. Raises ArtifactCorrupt when it is absent or invalid."""
    try:
        return CheckpointManifest.model_validate_json((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise ArtifactCorrupt(f"{folder / MANIFEST_FILE}: {error}") from error


def write_manifest(folder: Path, manifest: CheckpointManifest) -> None:
    """Write `checkpoint.json`, after everything else, because its presence means that the folder is complete."""
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2), encoding="utf-8")


def copy_companions(model_folder: Path, output_folder: Path) -> None:
    """Copy everything except weights from one model folder to another: tokenizer, templates, generation settings."""
    output_folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(model_folder.iterdir()):
        if path.is_file() and not any(path.match(pattern) for pattern in _WEIGHT_FILES):
            shutil.copyfile(path, output_folder / path.name)
