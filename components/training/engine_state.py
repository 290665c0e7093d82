"""An engine's state on disk: load it, name it by digests, save it. Every rank calls every function.

DeepSpeed itself is handed in by the worker, the only module that imports it.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from components.artifacts.digests import joined_digest, model_digest, model_tensors, tensors_digest
from components.errors import ArtifactCorrupt
from components.identity import seed_for
from components.training.base import MODEL_FOLDER, TRAINING_FOLDER, CheckpointManifest, UpdateJob
from components.training.buffers import computed_buffers, restore_buffers
from components.training.checkpoint import (
    NO_OPTIMIZER,
    copy_companions,
    load_model,
    probe_for,
    read_manifest,
    write_manifest,
)
from components.training.ranks import Ranks

Engine = Any


class DeepSpeed(Protocol):
    """The three things that are DeepSpeed's own."""

    def engine(self, model: nn.Module) -> Engine:
        """A fresh engine around `model`, with a new optimizer."""
        ...

    def whole(self, parameters: Sequence[nn.Parameter]) -> AbstractContextManager[None]:
        """Inside, partitioned parameters hold all their values."""
        ...


def load_engine(deepspeed: DeepSpeed, job: UpdateJob, ranks: Ranks) -> Engine:
    """An engine in exactly the state that `job` names. Raises ArtifactCorrupt when the folder holds another one."""
    folder, training = job.checkpoint_folder, job.training
    manifest = read_manifest(folder)
    _check(folder, "weights", job.weights_digest, manifest.weights_digest)
    _check(folder, "optimizer", job.optimizer_digest, manifest.optimizer_digest)
    model = load_model(folder / MODEL_FOLDER)
    _check(folder, "weights", job.weights_digest, model_digest(model))
    buffers = computed_buffers(model)
    engine = deepspeed.engine(model.to(getattr(torch, training.dtype)))
    restore_buffers(engine.module, buffers)
    if job.optimizer_digest == NO_OPTIMIZER:
        return engine
    if not (folder / TRAINING_FOLDER / "latest").is_file():
        raise ArtifactCorrupt(f"{folder} has an optimizer digest and no {TRAINING_FOLDER} folder")
    try:
        engine.load_checkpoint(str(folder / TRAINING_FOLDER))
    # DeepSpeed and torch fail on damaged files in many ways; none of them is worth a retry.
    except Exception as error:
        raise ArtifactCorrupt(f"{folder / TRAINING_FOLDER} cannot be read: {error}") from error
    _check(folder, "optimizer", job.optimizer_digest, optimizer_digest(engine, ranks))
    return engine


def save_engine(deepspeed: DeepSpeed, engine: Engine, job: UpdateJob, ranks: Ranks) -> CheckpointManifest:
    """Write the engine's state as checkpoint `job.step + 1` into `job.output_folder`, the manifest last."""
    folder, model_folder = job.output_folder, job.output_folder / MODEL_FOLDER
    if ranks.first:
        folder.mkdir(parents=True)
        copy_companions(job.checkpoint_folder / MODEL_FOLDER, model_folder)
    probe = probe_for(engine, vocabulary_size=int(engine.module.config.vocab_size))
    with whole_weights(deepspeed, engine.module) as tensors:
        weights_digest = ranks.broadcast(tensors_digest(tensors) if ranks.first else None)
        if ranks.first:
            engine.module.save_pretrained(model_folder, state_dict=tensors)
    optimizer = optimizer_digest(engine, ranks)
    if optimizer != NO_OPTIMIZER:
        # One fixed tag: the step number is in the manifest, and equal states get equal file names.
        engine.save_checkpoint(
            str(folder / TRAINING_FOLDER), tag="state", client_state={"rng_state": torch.get_rng_state()}
        )
    manifest = CheckpointManifest(
        policy=job.policy,
        step=job.step + 1,
        weights_digest=str(weights_digest),
        optimizer_digest=optimizer,
        probe=probe,
    )
    if ranks.first:
        write_manifest(folder, manifest)
    return manifest


def optimizer_digest(engine: Engine, ranks: Ranks) -> str:
    """The digest of the optimizer's tensors and step counters on all ranks; `NO_OPTIMIZER` before the first step."""
    if engine.global_steps == 0:
        return NO_OPTIMIZER
    inner = getattr(engine.optimizer, "optimizer", engine.optimizer)
    tensors: dict[str, Tensor] = {"global_steps": torch.tensor(engine.global_steps)}
    for number, (parameter, state) in enumerate(inner.state.items()):
        tensors[f"{number:06d}.parameter"] = parameter
        for name, value in state.items():
            tensors[f"{number:06d}.{name}"] = value if isinstance(value, Tensor) else torch.tensor(value)
    return joined_digest(str(part) for part in ranks.gathered(tensors_digest(tensors)))


@contextmanager
def whole_weights(deepspeed: DeepSpeed, model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """The model's tensors by name, whole on rank 0 also where ZeRO 3 partitions them."""
    with deepspeed.whole(list(model.parameters())):
        yield {name: tensor.detach() for name, tensor in model_tensors(model).items()}


def seed_everything(job: UpdateJob) -> None:
    """Set torch's generator from the job, so that a model with its own randomness repeats too."""
    torch.manual_seed(seed_for(job.seed, "update", job.step, job.policy))


def _check(folder: Path, what: str, wanted: str, found: str) -> None:
    if wanted != found:
        raise ArtifactCorrupt(f"{folder}: its {what} have digest {found[:12]}, the job names {wanted[:12]}")
