"""The table of the fields of Core SRL's configuration, from the facade itself."""

from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from flows.api.multi_model.configs import MultiModelConfig
from flows.api.multi_model.training import PLACES


def table() -> str:
    """A row for each field: its default, and what it sets in the run's configuration."""
    rows = [f"| `{each.name}` | {_default(each)} | {_places(PLACES[each.name])} |" for each in fields(MultiModelConfig)]
    return "\n".join(["| field | default | sets |", "|---|---|---|", *rows])


def _default(field: Any) -> str:
    value = field.default if field.default is not MISSING else field.default_factory()
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return ", ".join(f"`{each}`" for each in value) if isinstance(value, list | dict) else f"`{value}`"


def _places(text: str) -> str:
    return text if text.startswith("the ") else ", ".join(f"`{each}`" for each in text.split(", "))
