"""The nine documented keys of a training's configuration."""

import json
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, StrictBool, ValidationError

from components.errors import ConfigurationError
from components.frozen import Frozen
from components.text.suggestions import suggest

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]


class TrainingConfig(Frozen):
    """What `create_trainer_from_config` reads. `rom_path` and `llm_model` have no default.

    **Example** `{"rom_path": "homebrew", "llm_model": "tiny"}`.
    """

    rom_path: str
    """Your copy of Pokemon Crystal, "homebrew" (our own cartridge), or "twin" (its rules, without screen)."""
    llm_model: str
    """"tiny", "smollm2-135m", a model folder or a name on the hub."""
    headless: StrictBool = True
    """False opens a window."""
    observation_type: Literal["multi_modal", "screen", "state"] = "multi_modal"
    max_context_length: int = Field(2048, ge=1, strict=True)
    """Tokens that the language model reads at most, step by step; older steps are left out."""
    initial_strategy: Literal["llm_heavy", "balanced", "rule_heavy"] | None = None
    """None: what the history says, else balanced."""
    decision_db_path: str = "decisions.db"
    save_dir: str = "checkpoints"
    log_level: LogLevel = "INFO"


def check_training_config(values: dict[str, Any]) -> TrainingConfig:
    """The configuration with these keys. Raises ConfigurationError for unknown and missing ones and wrong values, by name."""
    try:
        return TrainingConfig(**values)
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            name = str(fault["loc"][0])
            if fault["type"] == "extra_forbidden":
                lines.append(f"{name}: unknown key; {suggest(name, TrainingConfig.model_fields)}")
            elif fault["type"] == "missing":
                lines.append(f"{name}: required and missing")
            else:
                lines.append(f"{name} {fault['input']!r}: {fault['msg']}")
        raise ConfigurationError("; ".join(lines)) from error


def read_training_config(path: str | Path) -> TrainingConfig:
    """The configuration in a JSON file. Raises ConfigurationError, which begins with the file."""
    keys = ", ".join(TrainingConfig.model_fields)
    if not isinstance(path, str | Path):
        raise ConfigurationError(f"config_path {path!r}: give the path of a JSON file with the keys {keys}")
    try:
        stored = json.loads(Path(expanduser(path)).read_text(encoding="utf-8"))
        if not isinstance(stored, dict):
            raise ConfigurationError(f"give one object with the keys {keys}")
        return check_training_config(stored)
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}; give a JSON file with the keys {keys}") from error
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
