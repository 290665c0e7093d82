"""The section `method`: who is trained, and how the steps go. Each method is one class, and one line of the union."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from components.config.hybrid import HybridMethod
from components.config.population import PopulationMethod
from components.config.sections import MethodConfig, TeamMethod
from components.config.variants import ReadVariant, list_variants

_Method = TeamMethod | PopulationMethod | HybridMethod
_METHODS: Mapping[str, type[MethodConfig]] = list_variants(_Method)
Method = Annotated[Annotated[_Method, Field(discriminator="type")], ReadVariant("type", default="team")]


def unread_sections(values: Any) -> frozenset[str]:
    """The sections that a configuration's method does not read, from its plain values; empty where they name none.

    **Example** of {"method": {"type": "hybrid"}}: rollout and rewards among others.
    """
    method = values.get("method") if isinstance(values, Mapping) else None
    name = method.get("type") if isinstance(method, Mapping) else getattr(method, "type", method)
    return _METHODS[name].unread if isinstance(name, str) and name in _METHODS else frozenset()
