"""The base class of pydantic values."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
