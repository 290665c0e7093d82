"""The nine documented keys of a training's configuration."""

import json
from collections.abc import Mapping
from dataclasses import fields
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import StrictBool

from components.errors import ConfigurationError
from components.hybrid.strategies import Strategy
from components.suggestions import suggest
from flows.api.multi_model.fields import Count, Text, as_json, check_fields

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
ObservationType = Literal["multi_modal", "screen", "state"]


@check_fields
class TrainingConfig:
    """What `create_trainer_from_config` reads. `rom_path` and `llm_model` have no default.

    **Example** `{"rom_path": "homebrew", "llm_model": "scripted"}`.
    """

    rom_path: Text
    """Your copy of Pokemon Crystal, "homebrew" (our own cartridge), or "twin" (its rules, without screen)."""
    llm_model: Text
    """"tiny", "smollm2-135m", a model folder, a name on the hub, or "scripted"."""
    headless: StrictBool = True
    """False opens a window."""
    observation_type: ObservationType = "multi_modal"
    max_context_length: Count = 2048
    """Tokens that the language model reads at most; older steps are left out."""
    initial_strategy: Literal["llm_heavy", "balanced", "rule_heavy"] = Strategy.BALANCED.value
    decision_db_path: Text = "decisions.db"
    save_dir: Text = "checkpoints"
    log_level: LogLevel = "INFO"

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The configuration with these keys. Raises ConfigurationError for unknown and missing ones, by name."""
        if unknown := sorted(set(stored) - set(KEYS)):
            raise ConfigurationError(f"{unknown[0]}: unknown key; {suggest(unknown[0], KEYS)}")
        return cls(**stored)

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON types."""
        return as_json(self)


KEYS = tuple(each.name for each in fields(TrainingConfig))


def read_training_config(path: str | Path) -> TrainingConfig:
    """The configuration in a JSON file. Raises ConfigurationError, which begins with the file."""
    if not isinstance(path, str | Path):
        raise ConfigurationError(f"config_path {path!r}: give the path of a JSON file with the keys {', '.join(KEYS)}")
    try:
        stored = json.loads(Path(expanduser(path)).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}; give a JSON file with the keys {', '.join(KEYS)}") from error
    if not isinstance(stored, dict):
        raise ConfigurationError(f"{path}: give one object with the keys {', '.join(KEYS)}")
    try:
        return TrainingConfig.from_json(stored)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
