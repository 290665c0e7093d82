"""The nine documented keys of a training's configuration."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from os.path import expanduser
from pathlib import Path
from typing import Any, Literal, Self, get_args

from components.errors import ConfigurationError
from components.hybrid.strategies import Strategy
from components.suggestions import suggest
from flows.api.multi_model.checked_config import Check, CheckedConfig, flag, text, whole

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
ObservationType = Literal["multi_modal", "screen", "state"]


def _choice(*values: str) -> Check:
    def check(name: str, value: Any) -> str:
        if value not in values:
            raise ConfigurationError(f"{name} {value!r}: use one of {', '.join(values)}")
        return str(value)

    return check


@dataclass
class TrainingConfig(CheckedConfig):
    """What `create_trainer_from_config` reads. `rom_path` and `llm_model` have no default.

    **Example** `{"rom_path": "homebrew", "llm_model": "scripted"}`.
    """

    rom_path: str
    """Your copy of Pokemon Crystal, "homebrew" (our own cartridge), or "twin" (its rules, without screen)."""
    llm_model: str
    """"tiny", "smollm2-135m", a model folder, a name on the hub, or "scripted"."""
    headless: bool = True
    """False opens a window."""
    observation_type: str = "multi_modal"
    max_context_length: int = 2048
    """Tokens that the language model reads at most; older steps are left out."""
    initial_strategy: str = Strategy.BALANCED.value
    decision_db_path: str = "decisions.db"
    save_dir: str = "checkpoints"
    log_level: str = "INFO"

    checks = {  # noqa: RUF012  (a ClassVar of the base)
        "rom_path": text,
        "llm_model": text,
        "headless": flag,
        "observation_type": _choice(*get_args(ObservationType)),
        "max_context_length": whole(1),
        "initial_strategy": _choice(*(each.value for each in Strategy)),
        "decision_db_path": text,
        "save_dir": text,
        "log_level": _choice(*get_args(LogLevel)),
    }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The configuration with these keys. Raises ConfigurationError for unknown and missing ones, by name."""
        if unknown := sorted(set(stored) - set(cls.checks)):
            raise ConfigurationError(f"{unknown[0]}: unknown key; {suggest(unknown[0], cls.checks)}")
        required = [each.name for each in fields(cls) if each.default is MISSING]
        if missing := [name for name in required if name not in stored]:
            raise ConfigurationError(f"{missing[0]}: required and missing")
        return cls(**stored)


def read_training_config(path: str | Path) -> TrainingConfig:
    """The configuration in a JSON file. Raises ConfigurationError, which begins with the file."""
    if not isinstance(path, str | Path):
        raise ConfigurationError(
            f"config_path {path!r}: give the path of a JSON file with the keys {', '.join(TrainingConfig.checks)}"
        )
    try:
        stored = json.loads(Path(expanduser(path)).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ConfigurationError(
            f"{path}: {error}; give a JSON file with the keys {', '.join(TrainingConfig.checks)}"
        ) from error
    if not isinstance(stored, dict):
        raise ConfigurationError(f"{path}: give one object with the keys {', '.join(TrainingConfig.checks)}")
    try:
        return TrainingConfig.from_json(stored)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from error
