"""DeepSpeed's configuration: the file of a ZeRO stage, completed by the run's configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from components.config import TrainingConfig
from components.errors import ConfigurationError

_OFFLOADED = {"offload_optimizer": ("optimizer", "all"), "offload_param": ("all",)}
"""Sections of DeepSpeed's configuration, and the values of training.offload that enable them."""


def complete_config(base: Mapping[str, Any], training: TrainingConfig) -> dict[str, Any]:
    """`base` with batch sizes, clipping, precision and offloading of `training`.

    Batch sizes are 1, because micro-batches are accumulated outside DeepSpeed. Raises ConfigurationError when `base` is for
    another ZeRO stage or sets what `training` decides.
    """
    stage = base.get("zero_optimization", {}).get("stage")
    if stage != training.zero_stage:
        raise ConfigurationError(
            f"training.zero_stage {training.zero_stage}: the DeepSpeed configuration has zero_optimization.stage {stage}; "
            f"give the file of stage {training.zero_stage}"
        )
    decided: dict[str, Any] = {
        "train_batch_size": training.num_ranks,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": training.max_grad_norm,
        "bf16": {"enabled": training.dtype == "bfloat16"},
    }
    zero = base["zero_optimization"]
    clashes = sorted([*(decided.keys() & base.keys()), *(_OFFLOADED.keys() & zero.keys())])
    if clashes:
        raise ConfigurationError(f"the DeepSpeed configuration sets {clashes}; these come from the training section")
    held = {"device": "cpu", "pin_memory": training.device == "cuda"}
    offloaded = {section: held for section, choices in _OFFLOADED.items() if training.offload in choices}
    return {**base, **decided, "zero_optimization": {**zero, **offloaded}}


def read_deepspeed_config(source: Mapping[str, Any] | Path) -> dict[str, Any]:
    """The mapping itself, or the one in a JSON file. Raises ConfigurationError when the file cannot be read."""
    if isinstance(source, Mapping):
        return dict(source)
    try:
        return TypeAdapter(dict[str, Any]).validate_json(source.read_bytes())
    except (OSError, ValidationError) as error:
        raise ConfigurationError(f"DeepSpeed configuration {source}: {error}") from error
