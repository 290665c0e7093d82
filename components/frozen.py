"""The base classes of pydantic values."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable value that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Settings(Frozen):
    """What a user sets. It rejects infinity, too, which JSON does not have: stored, it would be nothing."""

    model_config = ConfigDict(allow_inf_nan=False)
