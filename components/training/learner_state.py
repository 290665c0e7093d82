"""A learner's state on disk: load it, identify it by digests, save it. Every rank calls every function."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import nn

from components.errors import ArtifactCorrupt
from components.identity import seed_for
from components.models.adapters import (
    ADAPTER_FOLDER,
    adapter_tensors,
    compute_adapted_digest,
    load_adapter,
    read_adapter_config,
    write_adapter,
)
from components.models.buffers import compute_buffers, restore_buffers
from components.models.digests import model_digest, model_tensors, tensors_digest
from components.models.value_head import add_value_head
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER, CheckpointManifest, UpdateJob
from components.training.checkpoint import (
    NO_OPTIMIZER,
    compute_probe,
    copy_companions,
    load_trainable,
    write_manifest,
)
from components.training.optimizer_state import read_optimizer, write_optimizer
from components.training.ranks import Ranks

Learner = Any


class DeepSpeed(Protocol):
    """What the state needs of DeepSpeed (`deepspeed_backend`, the only module that imports it)."""

    def learner(self, model: nn.Module, job: UpdateJob) -> Learner:
        """A new learner around `model`, with a new optimizer for the parameters that require gradients."""
        ...

    def whole(self, parameters: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        """Inside, partitioned parameters hold all their values."""
        ...


def load_learner(deepspeed: DeepSpeed, job: UpdateJob, ranks: Ranks, base: nn.Module | None = None) -> Learner:
    """A learner in the state that `job` identifies. Raises ArtifactCorrupt when the folder holds another one.

    For an adapter, `base` may be its base model, which may already have adapters of other policies.
    """
    folder = job.checkpoint_folder
    model = base if base is not None else load_base(job)
    buffers = compute_buffers(model)
    if job.base_digest is None:
        _check(folder, "weights", job.weights_digest, model_digest(model))
    else:
        adapter = load_adapter(model, job.policy, folder / ADAPTER_FOLDER)
        _check(folder, "weights", job.weights_digest, compute_adapted_digest(job.base_digest, adapter))
    if job.critic is not None:
        add_value_head(model, job.policy)
    learner = deepspeed.learner(model.to(getattr(torch, job.training.dtype)), job)
    restore_buffers(learner.module, buffers)
    if job.optimizer_digest == NO_OPTIMIZER:
        return learner
    _check(folder, "optimizer", job.optimizer_digest, read_optimizer(learner, folder / TRAINING_FOLDER, ranks))
    return learner


def load_base(job: UpdateJob) -> nn.Module:
    """The model of the job's checkpoint; for an adapter its base, whose digest is checked.

    Raises ArtifactCorrupt, and ConfigurationError for a model that packed rows would train wrongly.
    """
    folder = job.checkpoint_folder
    model = load_trainable(folder / MODEL_FOLDER, training=job.training)
    if job.base_digest is not None:
        _check(folder, "base weights", job.base_digest, model_digest(model))
    return model


def save_learner(deepspeed: DeepSpeed, learner: Learner, job: UpdateJob, ranks: Ranks) -> CheckpointManifest:
    """Write the learner's state as checkpoint `job.step + 1` into `job.output_folder`, the manifest last."""
    folder, base_digest = job.output_folder, job.base_digest
    if ranks.first:
        folder.mkdir(parents=True)
    probe = compute_probe(learner, vocabulary_size=int(learner.module.config.vocab_size))
    written = _write_weights(deepspeed, learner, job, ranks, adapted=base_digest is not None)
    digest = str(ranks.broadcast(written))
    trained = learner.global_steps > 0
    optimizer = write_optimizer(learner, folder / TRAINING_FOLDER, ranks) if trained else NO_OPTIMIZER
    manifest = CheckpointManifest(
        policy=job.policy,
        step=job.step + 1,
        weights_digest=digest if base_digest is None else compute_adapted_digest(base_digest, digest),
        optimizer_digest=optimizer,
        probe=probe,
        base_digest=base_digest,
    )
    if ranks.first:
        write_manifest(folder, manifest)
    return manifest


def _write_weights(
    deepspeed: DeepSpeed, learner: Learner, job: UpdateJob, ranks: Ranks, *, adapted: bool
) -> str | None:
    """Write the model folder, or the adapter folder if `adapted`; on the first rank, the digest of its tensors."""
    module, source, target = learner.module, job.checkpoint_folder, job.output_folder
    written = adapter_tensors(module, job.policy).values() if adapted else module.parameters()
    with deepspeed.whole([tensor for tensor in written if isinstance(tensor, nn.Parameter)]):
        if not ranks.first:
            return None
        whole = adapter_tensors(module, job.policy) if adapted else model_tensors(module)
        tensors = {name: tensor.detach() for name, tensor in whole.items()}
        if adapted:
            write_adapter(tensors, read_adapter_config(source / ADAPTER_FOLDER), target / ADAPTER_FOLDER)
        else:
            copy_companions(source / MODEL_FOLDER, target / MODEL_FOLDER)
            module.save_pretrained(target / MODEL_FOLDER, state_dict=tensors)
        return tensors_digest(tensors)


def seed_everything(job: UpdateJob) -> None:
    """Seed torch from the job, so that a model with its own randomness is reproducible."""
    torch.manual_seed(seed_for(job.seed, "update", job.step, job.policy))


def _check(folder: Path, what: str, wanted: str, found: str) -> None:
    if wanted != found:
        raise ArtifactCorrupt(f"{folder}: its {what} have digest {found[:12]}, the job expects {wanted[:12]}")
