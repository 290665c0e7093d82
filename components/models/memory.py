"""The memory that a run takes, estimated from plain numbers before any weights are loaded.

An estimate of the largest parts, meant to be right to a third: it refuses what cannot fit and promises nothing.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from components.config import GenerationConfig, TrainingConfig
from components.errors import ConfigurationError

Bytes = Mapping[str, int]
"""Part -> bytes."""
GIB = 2**30
_TYPE_BYTES = {"float32": 4, "bfloat16": 2}
_MOMENT_BYTES = 8
_MASTER_BYTES = 4
"""Of one float32 weight or gradient that the optimizer keeps beside one in bfloat16."""
_LOGITS_AT_ONCE = {"cpu": 2**23, "cuda": 2**26}
"""Of one block, as in `training.token_logprobs`. A model that scales what its output layer gives has all of them."""
_CUDA_PROCESS_BYTES = GIB
"""Of the CUDA context and the libraries' workspaces in one process."""
_KEPT_HIDDEN, _KEPT_INTERMEDIATE = 16, 4.5
"""Values that a decoder layer keeps per token for the backward pass, in multiples of its two widths (measured on Qwen3)."""
_REMEDIES = {
    "weights": "use a smaller base, or training.dtype bfloat16",
    "gradients": "train a policies.<name>.adapter, or use more ranks with training.zero_stage 2",
    "optimizer": "train a policies.<name>.adapter, or use training.offload optimizer with zero_stage 3",
    "activations": "set training.gradient_checkpointing, or lower training.tokens_per_micro_batch",
    "log-probabilities": "train a policies.<name>.adapter, or lower training.tokens_per_micro_batch",
    "process": "use fewer workers on this device",
    "reference": "set loss.kl_coefficient to 0, or train a policies.<name>.adapter",
    "engine": "lower resources.placement.memory_fraction or generation.vllm.kv_cache_gib, set generation.dtype bfloat16, or "
    "use a smaller base",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNumbers:
    """The sizes of a base. `num_trained` counts the weights that an optimizer updates, over all policies on it."""

    num_parameters: int
    num_trained: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    key_value_width: int
    vocabulary_size: int
    adapted: bool

    def count_weight_bytes(self, dtype: str) -> int:
        """The bytes of its weights in a type."""
        return self.num_parameters * _TYPE_BYTES[dtype]


def training_bytes(model: ModelNumbers, training: TrainingConfig, *, with_reference: bool = False) -> Bytes:
    """What one rank takes of its device, or of its host.

    **Example** 1.5e9 parameters in bfloat16, all trained, on one rank: 3 GB of weights, 9 of gradients, 18 of optimizer.
    """
    size = _TYPE_BYTES[training.dtype]
    master = _MASTER_BYTES if training.dtype == "bfloat16" else 0
    weights, trained = model.num_parameters * size, model.num_trained
    parts = {
        "weights": weights / _parts(training, 3),
        "gradients": trained * (size + master) / _parts(training, 2),
        "optimizer": trained * (_MOMENT_BYTES + master) / _parts(training, 1),
        "reference": weights if with_reference and not model.adapted else 0,
        **_of_micro_batch(model, training),
    }
    if training.device == "cuda":
        parts["process"] = _CUDA_PROCESS_BYTES
        moved = {"none": (), "optimizer": ("optimizer",), "all": ("optimizer", "weights")}[training.offload]
        parts |= dict.fromkeys(moved, 0)
    return {name: int(value) for name, value in parts.items() if value}


def engine_bytes(model: ModelNumbers, generation: GenerationConfig, *, num_tokens: int, reserved_bytes: int) -> Bytes:
    """What an engine takes of each of its devices, or of its host. `num_tokens` are the prompt and answer tokens that it holds
    at once, `reserved_bytes` what a server reserves of a device."""
    size = _TYPE_BYTES[generation.dtype]
    needed = generation.estimate_bytes(
        model.num_parameters * size,
        2 * model.num_layers * model.key_value_width * size,
        num_tokens=num_tokens,
        reserved_bytes=reserved_bytes,
    )
    return {"engine": needed} if needed else {}


def check_fits(parts: Bytes, available: int, *, where: str) -> None:
    """Raise ConfigurationError, naming the largest part and what lowers it, if `parts` are more than `available` bytes.

    `where` names the memory, as in "device cuda".
    """
    needed = sum(parts.values())
    if needed <= available:
        return
    largest = max(parts, key=lambda name: parts[name])
    raise ConfigurationError(
        f"memory of {where}: the run needs about {needed / GIB:.1f} GiB of {available / GIB:.1f}; the largest part is "
        f"{largest}, {parts[largest] / GIB:.1f} GiB: {_REMEDIES[largest]}"
    )


def host_bytes() -> int:
    """The memory of this host, or of the control group that this process is confined to."""
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        return min(physical, int(Path("/sys/fs/cgroup/memory.max").read_text(encoding="utf-8")))
    except (OSError, ValueError):  # no control group, or "max"
        return physical


def _of_micro_batch(model: ModelNumbers, training: TrainingConfig) -> dict[str, float]:
    size, num_tokens = _TYPE_BYTES[training.dtype], training.tokens_per_micro_batch
    layer = num_tokens * size * (_KEPT_HIDDEN * model.hidden_size + _KEPT_INTERMEDIATE * model.intermediate_size)
    inputs = num_tokens * size * model.hidden_size * model.num_layers
    return {
        "activations": inputs + layer if training.gradient_checkpointing else layer * model.num_layers,
        "log-probabilities": _of_output_layer(model, training),
    }


def _of_output_layer(model: ModelNumbers, training: TrainingConfig) -> float:
    """A block of logits in float32, on a device probabilities beside it, in bfloat16 a copy; float32 gradients of the hidden
    states; and the weights' gradient, if they are trained, before it is added to that of other micro-batches."""
    size, num_tokens = _TYPE_BYTES[training.dtype], training.tokens_per_micro_batch
    block = min(_LOGITS_AT_ONCE[training.device] * size // 4, num_tokens * model.vocabulary_size)
    block_bytes = block * (4 + (4 if training.device == "cuda" else 0) + (2 if size == 2 else 0))
    of_weights = 0 if model.adapted else model.vocabulary_size * model.hidden_size * size
    return block_bytes + 4 * num_tokens * model.hidden_size + of_weights


def _parts(training: TrainingConfig, stage: int) -> int:
    """How many ranks share what ZeRO partitions from `stage` on."""
    return training.num_ranks if training.zero_stage >= stage else 1
