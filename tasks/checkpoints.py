"""Checkpoints between the store and this machine's disk."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import RunConfig
from components.scratch import scratch_folder
from components.training.base import MODEL_FOLDER, UpdateJob
from components.training.checkpoint import read_manifest
from tasks import wiring
from tasks.run import Run

KEPT_FOLDERS = 6
"""Checkpoints of which a local copy is kept; the store has them all."""


@cache
def copies_folder() -> Path:
    """Where local copies lie, each in a folder named by its digest."""
    folder = scratch_folder() / "checkpoints"
    folder.mkdir(exist_ok=True)
    return folder


def checkpoint_folder(config: RunConfig, checkpoint: CheckpointRef) -> Path:
    """A local folder with the checkpoint's files, fetched from the store unless they are here already.

    Beside an adapter stands its base, as one folder for all its adapters.
    """
    folder = _local_copy(config, checkpoint.folder)
    if checkpoint.base is not None:
        base, link = _local_copy(config, checkpoint.base) / MODEL_FOLDER, folder / MODEL_FOLDER
        if not link.is_symlink():
            link.symlink_to(base)
    return folder


def stored_base(config: RunConfig, folder: Path) -> ArtifactRef:
    """The reference of a folder that holds a model folder, for adapters to sit on."""
    return wiring.store(config).put_folder(folder)


def stored_checkpoint(config: RunConfig, folder: Path, *, base: ArtifactRef | None) -> CheckpointRef:
    """The reference of a checkpoint that was written to `folder`, which becomes the local copy."""
    manifest = read_manifest(folder)
    ref = wiring.store(config).put_folder(folder)
    kept = copies_folder() / ref.sha256
    if not kept.exists():
        shutil.move(folder, kept)
    _forget_old_copies()
    return CheckpointRef(
        base=base,
        policy=manifest.policy,
        step=manifest.step,
        folder=ref,
        weights_digest=manifest.weights_digest,
        optimizer_digest=manifest.optimizer_digest,
    )


@contextmanager
def update_job(run: Run, step: int, checkpoint: CheckpointRef, batch: ArtifactRef) -> Iterator[UpdateJob]:
    """The job of one update, with its inputs on disk; its output folder is removed unless it was stored."""
    config = run.config
    work = Path(tempfile.mkdtemp(prefix=f"step-{step:06d}-", dir=copies_folder()))
    try:
        batch_file = work / "batch"
        batch_file.write_bytes(wiring.store(config).get_bytes(batch))
        yield UpdateJob(
            policy=checkpoint.policy,
            step=step,
            seed=config.seed,
            total_steps=config.num_steps,
            checkpoint_folder=checkpoint_folder(config, checkpoint),
            weights_digest=checkpoint.weights_digest,
            optimizer_digest=checkpoint.optimizer_digest,
            reference_folder=_reference_folder(run, checkpoint.policy),
            batch_file=batch_file,
            output_folder=work / "checkpoint",
            temperature=config.rollout.temperature,
            training=wiring.training_of(config, checkpoint.policy),
            loss=config.loss,
        )
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _reference_folder(run: Run, policy: str) -> Path | None:
    """The policy before training, when the loss asks for it."""
    if run.config.loss.kl_coefficient == 0:
        return None
    from tasks.warm_start import committed_warm_start

    return checkpoint_folder(run.config, committed_warm_start(run)[policy])


def _local_copy(config: RunConfig, ref: ArtifactRef) -> Path:
    folder = copies_folder() / ref.sha256
    if not folder.exists():
        wiring.store(config).get_folder(ref, folder)
    os.utime(folder)
    return folder


def _forget_old_copies() -> None:
    folders = [path for path in copies_folder().iterdir() if path.is_dir() and not path.name.startswith("step-")]
    for folder in sorted(folders, key=lambda path: path.stat().st_mtime)[:-KEPT_FOLDERS]:
        shutil.rmtree(folder, ignore_errors=True)
