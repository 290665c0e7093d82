"""The training border: one update is a function from a checkpoint and a batch to a new checkpoint, on disk."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from components.artifacts.refs import Frozen
from components.config import LossConfig, TrainingConfig

MODEL_FOLDER = "model"
"""Inside a checkpoint folder: a Hugging Face model folder with its tokenizer. Beside an adapter it is the base, and lies
elsewhere in a store: one base serves all its adapters and all their steps."""
TRAINING_FOLDER = "training"
"""Inside a checkpoint folder: what DeepSpeed saved. Absent before the first update."""


class Probe(Frozen):
    """A fixed prompt and completion with the trainer's log-probabilities, by which an engine proves its weights."""

    prompt_tokens: tuple[int, ...]
    completion_tokens: tuple[int, ...]
    trainer_logprobs: tuple[float, ...]


class CheckpointManifest(Frozen):
    """`checkpoint.json` inside a checkpoint folder."""

    policy: str
    step: int
    weights_digest: str
    optimizer_digest: str
    probe: Probe
    base_digest: str | None = None
    """Of the model that the policy's adapter sits on; None for a policy with weights of its own."""


class UpdateJob(Frozen):
    """Everything that one update depends on. `weights_digest` names the version the worker must start from."""

    policy: str
    step: int
    seed: int
    total_steps: int
    checkpoint_folder: Path
    weights_digest: str
    optimizer_digest: str
    reference_folder: Path | None
    batch_file: Path
    """A TrainBatch, encoded by `components.artifacts.codec`."""
    output_folder: Path
    """Does not exist yet; the worker fills it and its manifest is written last."""
    temperature: float
    training: TrainingConfig
    loss: LossConfig


class UpdateResult(Frozen):
    """What an update left behind, beside the files in its output folder."""

    manifest: CheckpointManifest
    metrics: Mapping[str, float]
    """Names below `train/<policy>/`, for example `loss`, `clip_frac`, `mismatch_kl`, `grad_norm`."""


class Trainer(Protocol):
    """A warm worker. Whatever it holds in memory, it first makes sure that it holds what the job names."""

    def update(self, job: UpdateJob) -> UpdateResult:
        """Run one update. Raises WorkerDied (retry) or UpdateFailed."""
        ...

    def close(self) -> None:
        """End the worker and every process it started."""
        ...
