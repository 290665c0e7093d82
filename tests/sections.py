"""Sections of a configuration by the names of their variants."""

from typing import Any

from pydantic import TypeAdapter

from components.config import AlgorithmConfig, LossConfig
from components.config.algorithm import Algorithm
from components.config.generation import Generation, TransformersGeneration, VllmGeneration
from components.config.loss import Loss
from components.config.population import TrainingMode

_ALGORITHM: TypeAdapter[AlgorithmConfig] = TypeAdapter(Algorithm)
_LOSS: TypeAdapter[LossConfig] = TypeAdapter(Loss)
_TRAINING_MODE: TypeAdapter[TrainingMode] = TypeAdapter(TrainingMode)
_GENERATION: TypeAdapter[TransformersGeneration | VllmGeneration] = TypeAdapter(Generation)


def choose_algorithm(**values: Any) -> Any:
    """The section `algorithm` of these values."""
    return _ALGORITHM.validate_python(values)


def choose_loss(**values: Any) -> Any:
    """The section `loss` of these values."""
    return _LOSS.validate_python(values)


def choose_generation(**values: Any) -> Any:
    """The section `generation` of these values."""
    return _GENERATION.validate_python(values)


def choose_training_mode(name: str, **values: Any) -> TrainingMode:
    """The training mode of a population by its name, with these values."""
    return _TRAINING_MODE.validate_python({"type": name, **values})
