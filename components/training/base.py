"""The training interface: one update is a function from a checkpoint and a batch to a new checkpoint, on disk."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.config import LossConfig, TrainingConfig
from components.frozen import Frozen

MODEL_FOLDER = "model"
"""Inside a checkpoint folder: a Hugging Face model folder with its tokenizer; for an adapter its base, stored once for all."""
MANIFEST_FILE = "checkpoint.json"
"""Inside a checkpoint folder: its CheckpointManifest."""
TRAINING_FOLDER = "training"
"""Inside a checkpoint folder: the optimizer state. Absent before the first update."""


_NATS_OF_TOLERANCE = 8.0


class Probe(Frozen):
    """A fixed prompt and completion with the trainer's log-probabilities, to check an engine's weights."""

    prompt_tokens: tuple[int, ...]
    completion_tokens: tuple[int, ...]
    trainer_logprobs: tuple[float, ...]


class WorstMismatch(Frozen):
    """Where two computations of the same log-probabilities are furthest apart, compared with what is allowed there."""

    position: int
    difference: float
    """In nats."""
    allowed: float

    @property
    def is_allowed(self) -> bool:
        """False for a difference that is not finite."""
        return math.isfinite(self.difference) and self.difference <= self.allowed


def worst_mismatch(expected: Sequence[float], found: Sequence[float], tolerance: float) -> WorstMismatch:
    """The position whose difference is the largest multiple of what is allowed, one that is not finite before all.

    `tolerance` is allowed down to -8 nats, and in proportion below: a rounding is relative, and a step of bfloat16 twice as
    large at -16 nats as at -8.

    **Example** expected (-2, -18), found (-2.3, -18.6), tolerance .5: the first, .3 of .5; .6 of 1.125 is less.
    """
    assert len(expected) == len(found) > 0, f"{len(expected)} log-probabilities against {len(found)}"
    apart = [abs(one - other) for one, other in zip(expected, found, strict=True)]
    allowed = [tolerance * max(1.0, abs(one) / _NATS_OF_TOLERANCE) for one in expected]
    shares = [d / a if math.isfinite(d) else math.inf for d, a in zip(apart, allowed, strict=True)]
    position = max(range(len(shares)), key=shares.__getitem__)
    return WorstMismatch(position=position, difference=apart[position], allowed=allowed[position])


class CheckpointManifest(Frozen):
    """`checkpoint.json` inside a checkpoint folder."""

    policy: str
    step: int
    weights_digest: str
    optimizer_digest: str
    probe: Probe | None
    """None for a policy that is no language model."""
    base_digest: str | None = None
    """Of the base of the policy's adapter; None for a policy with full weights."""


class CriticTerms(Frozen):
    """How a policy's critic is trained and used (`components.algorithms.gae`)."""

    discount: float
    """Of what comes a move later."""
    trace: float
    value_coefficient: float
    """Weight of the squared error in the loss."""
    advantage_weight: float = 1.0
    """What the critic's advantages count, below 1 where older weights played; its targets are as they were."""


class UpdateTerms(Frozen):
    """What an update depends on beside checkpoints and batch. `weights_digest` and `optimizer_digest` identify the version to
    start from."""

    policy: str
    step: int
    seed: int
    total_steps: int
    weights_digest: str
    optimizer_digest: str
    reference_step: int = 0
    """The updates that the reference has had: an adapter without any is its base alone."""
    temperature: float
    """Of the groups without their own."""
    training: TrainingConfig
    loss: LossConfig
    critic: CriticTerms | None = None
    """With a critic the batch has returns in place of advantages, and the moves of its rows; None trains the policy alone."""
    proximal: float = 0.0
    """The pull towards the weights from before the update (`components.algorithms.proximal`)."""


class UpdateOrder(UpdateTerms):
    """An update by references, for ranks on any host."""

    checkpoint: CheckpointRef
    reference: CheckpointRef | None
    """The policy's checkpoint that the loss pulls to, if any."""
    batch: ArtifactRef
    """A TrainBatch."""


class UpdateJob(UpdateTerms):
    """An update whose files are on this host."""

    checkpoint_folder: Path
    base_digest: str | None = None
    """Of the base of the policy's adapter, by the checkpoint's manifest; None for a policy with full weights."""
    reference_folder: Path | None
    """Its name changes with its weights."""
    batch_file: Path
    """A TrainBatch encoded by `components.artifacts.codec`."""
    output_folder: Path
    """Does not exist yet; the worker creates it and writes its manifest last."""


class UpdateResult(Frozen):
    """The outcome of an update, besides the files in its output folder."""

    manifest: CheckpointManifest
    metrics: Mapping[str, float]
    """By names below `train/<policy>/`, such as `loss`, `clip_frac`, `mismatch_kl` and `grad_norm`."""
