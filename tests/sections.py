"""Sections of a configuration by the names of their variants, and small configurations."""

from typing import Any

from pydantic import TypeAdapter

from components.config import AlgorithmConfig, LossConfig, RunConfig, parse_config
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


def make_config(environment: str | dict[str, Any], *agents: str, **sections: Any) -> RunConfig:
    """A configuration of one step whose agents share the policy p; `sections` add to it, or take the place of its own."""
    named = {"name": environment} if isinstance(environment, str) else environment
    team = {"agents": {agent: {"policy": "p"} for agent in agents}, "policies": {"p": {}}}
    return parse_config({"num_steps": 1, "environment": named, **team, **sections})
