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

from components.artifacts.adapters import ADAPTER_FOLDER, adapted_digest, adapter_tensors, add_adapter, write_adapter
from components.artifacts.digests import model_digest, tensors_digest
from components.config import AdapterConfig
from components.errors import ArtifactCorrupt, ConfigurationError
from components.identity import GroupKey
from components.schema import TrainGroup
from components.torch_process import building_a_model
from components.training.base import MODEL_FOLDER, CheckpointManifest, Probe
from components.training.forward import completion_logprobs
from components.training.packing import pack_groups

MANIFEST_FILE = "checkpoint.json"
NO_OPTIMIZER = hashlib.sha256(b"no optimizer yet").hexdigest()
"""The optimizer digest of a policy that has not been trained."""

_PROBE_PROMPT_TOKENS = 16
_PROBE_COMPLETION_TOKENS = 8
_WEIGHT_FILES = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json", "*.gguf", "*.pt")


def write_initial_checkpoint(model_folder: Path, output_folder: Path, policy: str) -> CheckpointManifest:
    """The checkpoint of step 0: a copy of `model_folder` and a manifest. `output_folder` must not exist.

    The weights digest is over the stored tensors, in their stored type.
    """
    output_folder.mkdir(parents=True)
    shutil.copytree(model_folder, output_folder / MODEL_FOLDER)
    model = load_model(output_folder / MODEL_FOLDER)
    return _initial_manifest(output_folder, policy, model, weights_digest=model_digest(model))


def write_initial_adapter(
    model_folder: Path, output_folder: Path, policy: str, *, adapter: AdapterConfig, seed: int
) -> CheckpointManifest:
    """The checkpoint of step 0 of an adapter on the model in `model_folder`, which is not copied.

    The adapter starts as the identity. `output_folder` must not exist.
    """
    output_folder.mkdir(parents=True)
    model = load_model(model_folder)
    base_digest = model_digest(model)
    add_adapter(model, policy, adapter, seed=seed)
    tensors = adapter_tensors(model, policy)
    write_adapter(tensors, adapter, output_folder / ADAPTER_FOLDER)
    digest = adapted_digest(base_digest, tensors_digest(tensors))
    return _initial_manifest(output_folder, policy, model, weights_digest=digest, base_digest=base_digest)


def _initial_manifest(
    folder: Path, policy: str, model: nn.Module, *, weights_digest: str, base_digest: str | None = None
) -> CheckpointManifest:
    manifest = CheckpointManifest(
        policy=policy,
        step=0,
        weights_digest=weights_digest,
        optimizer_digest=NO_OPTIMIZER,
        probe=probe_for(model),
        base_digest=base_digest,
    )
    write_manifest(folder, manifest)
    return manifest


def load_model(folder: Path) -> nn.Module:
    """The causal language model in `folder`, in its stored type, without dropout.

    Raises ConfigurationError when there is no such folder, ArtifactCorrupt when it cannot be read.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as transformers_logging

    transformers_logging.disable_progress_bar()  # it would disturb the run's own progress bar

    if not (folder / "config.json").is_file():
        raise ConfigurationError(f"{folder} is not a model folder: it has no config.json")
    try:
        with building_a_model():
            model: nn.Module = AutoModelForCausalLM.from_pretrained(
                folder, dtype="auto", attn_implementation="sdpa", local_files_only=True
            )
    # A damaged folder fails in safetensors, json or torch, which raise different classes.
    except Exception as error:
        raise ArtifactCorrupt(f"{folder} cannot be read as a model: {error}") from error
    return model.eval()


def probe_for(model: nn.Module, *, vocabulary_size: int | None = None) -> Probe:
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
        return CheckpointManifest.model_validate_json((folder / MANIFEST_FILE).read_text())
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        raise ArtifactCorrupt(f"{folder / MANIFEST_FILE}: {error}") from error


def write_manifest(folder: Path, manifest: CheckpointManifest) -> None:
    """Write `checkpoint.json`, after everything else, because its presence means that the folder is complete."""
    (folder / MANIFEST_FILE).write_text(manifest.model_dump_json(indent=2))


def copy_companions(model_folder: Path, output_folder: Path) -> None:
    """Copy everything except weights from one model folder to another: tokenizer, templates, generation settings."""
    output_folder.mkdir(parents=True, exist_ok=True)
    for path in sorted(model_folder.iterdir()):
        if path.is_file() and not any(path.match(pattern) for pattern in _WEIGHT_FILES):
            shutil.copyfile(path, output_folder / path.name)
