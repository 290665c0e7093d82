"""The training interface: one update is a function from a checkpoint and a batch to a new checkpoint, on disk."""

from collections.abc import Mapping
from pathlib import Path

from components.artifacts.refs import Frozen
from components.config import LossConfig, TrainingConfig

MODEL_FOLDER = "model"
"""Inside a checkpoint folder: a Hugging Face model folder with its tokenizer; for an adapter its base, stored once for all."""
TRAINING_FOLDER = "training"
"""Inside a checkpoint folder: the optimizer state. Absent before the first update."""


class Probe(Frozen):
    """A fixed prompt and completion with the trainer's log-probabilities, to check an engine's weights."""

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
    """Of the base of the policy's adapter; None for a policy with full weights."""


class UpdateJob(Frozen):
    """Everything that one update depends on. `weights_digest` identifies the version to start from."""

    policy: str
    step: int
    seed: int
    total_steps: int
    checkpoint_folder: Path
    weights_digest: str
    optimizer_digest: str
    reference_folder: Path | None
    batch_file: Path
    """A TrainBatch encoded by `components.artifacts.codec`."""
    output_folder: Path
    """Does not exist yet; the worker creates it and writes its manifest last."""
    temperature: float
    """Of the groups without their own."""
    training: TrainingConfig
    loss: LossConfig


class UpdateResult(Frozen):
    """The outcome of an update, besides the files in its output folder."""

    manifest: CheckpointManifest
    metrics: Mapping[str, float]
    """By names below `train/<policy>/`, such as `loss`, `clip_frac`, `mismatch_kl` and `grad_norm`."""
