"""The table of the fields of Core SRL's configuration, from the facade itself."""

from dataclasses import MISSING, fields
from enum import Enum
from typing import Any

from flows.api.multi_model.configs import MultiModelConfig


def table() -> str:
    """A row for each field: its default, and what it says of itself."""
    texts = {name: str(each.description) for name, each in MultiModelConfig.__pydantic_fields__.items()}
    rows = [
        f"| `{each.name}` | {_default(each)} | {_join_lines(texts[each.name])} |" for each in fields(MultiModelConfig)
    ]
    return "\n".join(["| field | default | |", "|---|---|---|", *rows])


def _join_lines(text: str) -> str:
    return " ".join(text.split())


def _default(field: Any) -> str:
    value = field.default if field.default is not MISSING else field.default_factory()
    if isinstance(value, Enum):
        return f"`{value.value}`"
    return ", ".join(f"`{each}`" for each in value) if isinstance(value, list | dict) else f"`{value}`"
