"""The section `method`: who is trained, and how the steps go. Each method is one class, and one line of the union."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from components.config.hybrid import HybridMethod
from components.config.population import PopulationMethod
from components.config.sections import MethodConfig, TeamMethod
from components.config.variants import ReadVariant

Method = Annotated[
    Annotated[TeamMethod | PopulationMethod | HybridMethod, Field(discriminator="type")],
    ReadVariant("type", ("team", "population", "hybrid"), default="team"),
]
_METHODS: tuple[type[MethodConfig], ...] = (TeamMethod, PopulationMethod, HybridMethod)


def unread_sections(values: Any) -> frozenset[str]:
    """The sections that a configuration's method does not read, from its plain values; empty where they name none.

    **Example** of {"method": {"type": "hybrid"}}: rollout and rewards among others.
    """
    method = values.get("method") if isinstance(values, Mapping) else None
    name = method.get("type") if isinstance(method, Mapping) else getattr(method, "type", method)
    return next((each.unread for each in _METHODS if each.model_fields["type"].default == name), frozenset())
