"""The documented configurations: the nine keys of a training, and those of its curriculum."""

import json
from collections.abc import Mapping
from itertools import pairwise
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, StrictBool, model_validator

from components.config import hybrid, parse_section
from components.errors import ConfigurationError
from components.frozen import Settings
from components.hybrid.strategies import Strategy
from flows.api.fields import AnyPath, check_arguments

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
ObservationType = Literal["multi_modal", "screen", "state"]


class TrainingConfig(Settings):
    """What `create_trainer_from_config` reads. `rom_path` and `llm_model` have no default.

    **Example** `{"rom_path": "homebrew", "llm_model": "tiny"}`.
    """

    rom_path: str
    """Your copy of Pokemon Crystal, "homebrew" (our own cartridge), or "twin" (its rules, without screen)."""
    llm_model: str
    """"tiny", "smollm2-135m", a model folder or a name on the hub."""
    headless: StrictBool = True
    """False opens a window."""
    observation_type: ObservationType = "multi_modal"
    max_context_length: int = Field(2048, ge=1, strict=True)
    """Tokens that the language model reads at most, step by step; older steps are left out."""
    initial_strategy: Literal["llm_heavy", "balanced", "rule_heavy"] | None = None
    """None: what the history says, else balanced."""
    decision_db_path: str = "decisions.db"
    save_dir: str = "checkpoints"
    log_level: LogLevel = "INFO"


@check_arguments
def read_training_config(config_path: AnyPath) -> TrainingConfig:
    """The configuration in a JSON file. Raises ConfigurationError, which begins with the file."""
    try:
        return parse_section(TrainingConfig, json.loads(Path(expanduser(config_path)).read_text(encoding="utf-8")))
    except ConfigurationError as error:
        raise ConfigurationError(f"{config_path}: {error}") from error
    except (OSError, ValueError) as error:
        keys = ", ".join(TrainingConfig.model_fields)
        raise ConfigurationError(f"{config_path}: {error}; give a JSON file with the keys {keys}") from error


class StageConfig(Settings):
    """A stage of a curriculum. `reward_threshold` and `llm_confidence` have no default."""

    reward_threshold: float
    min_episodes: int = Field(10, ge=1)
    llm_confidence: float = Field(ge=0.0, le=1.0)
    """The confidence that advice must have to count: it does not fall from stage to stage."""
    strategy_preference: Strategy = Strategy.BALANCED


class CurriculumConfig(Settings):
    """From much help of the language model to little."""

    stages: tuple[StageConfig, ...] | None = Field(None, min_length=1)
    """None: four stages of ours."""
    advancement_patience: int = Field(20, ge=1)
    confidence_decay_rate: float = Field(0.995, gt=0.0, le=1.0)
    """The factor, for each episode, of what is left of 1 above a stage's `llm_confidence`."""

    @model_validator(mode="after")
    def _confidence_rises(self) -> "CurriculumConfig":
        for number, (before, after) in enumerate(pairwise(each.llm_confidence for each in self.stages or ()), start=1):
            if after < before:
                raise ValueError(
                    f"stages.{number}.llm_confidence {after:g} is below that of the stage before, {before:g}, and would let in "
                    "more advice: raise it, or change the order"
                )
        return self


def read_curriculum(config: Mapping[str, Any] | None) -> hybrid.CurriculumConfig:
    """The curriculum of a configuration with the documented keys; None: four stages of ours. Raises ConfigurationError.

    **Example** a threshold of .4 and a rate of .9: .4, then 1 - .6 * .9 = .46, up to that of the next stage.
    """
    stated = parse_section(CurriculumConfig, config or {}, place="curriculum_config")
    stages = [
        hybrid.StageConfig(
            name=f"stage {number}",
            reward_threshold=each.reward_threshold,
            llm_confidence=round(1.0 - each.llm_confidence, 12),  # in our words: how far the model is trusted
            strategy=each.strategy_preference.value,
            min_episodes=each.min_episodes,
        )
        for number, each in enumerate(stated.stages or ())
    ]
    return hybrid.CurriculumConfig(
        stages=tuple(stages) or None, patience=stated.advancement_patience, decay=stated.confidence_decay_rate
    )
