"""The base class of configuration sections."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the configuration: immutable, unknown keys rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
