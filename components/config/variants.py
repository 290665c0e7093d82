"""Sections among which a configuration chooses: one field names the variant, which has only the fields that it reads."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import BeforeValidator, SerializerFunctionWrapHandler, model_serializer
from pydantic_core import PydanticCustomError

from components.frozen import Frozen
from components.suggestions import did_you_mean
from components.user_code import is_own, suggest_own

UNKNOWN_VARIANT = "unknown_variant"
"""The type of the error of a name that no variant has; its context holds the `field` that names it."""
OWN = "own"
"""The tag of the variant for names of the form `module:function`."""


class Variant(Frozen):
    """A section that is one of several; the field `chosen_by` says which."""

    chosen_by: ClassVar[str] = "type"

    @model_serializer(mode="wrap")
    def _write_with_its_name(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The name stays where defaults are left out: it says whose defaults they are."""
        return {self.chosen_by: getattr(self, self.chosen_by), **write(self)}


def read_variant(
    field: str, names: Sequence[str], *, default: str, own: Literal["function"] | None = None
) -> BeforeValidator:
    """What pydantic does with a section before it chooses by `field`: a mere name is a section of defaults, and a section
    without a name is of `default`. Raises an error with the nearest name.

    **Example** for `type` of a and b, default a: "b" is {"type": "b"}, and {"x": 1} is {"type": "a", "x": 1}.
    """

    def read(values: Any) -> Any:
        section = {field: values} if isinstance(values, str) else values
        if not isinstance(section, Mapping):
            return section
        name = section.get(field, default)
        if isinstance(name, str) and (name in names or (own is not None and is_own(name))):
            return {**section, field: name}
        remedy = f"{did_you_mean(str(name), names)}there are {', '.join(map(repr, names))}"
        if own is not None:
            remedy += f"; {suggest_own(str(name), kind=own) or f'one of your own is module:{own}'}"
        raise PydanticCustomError(
            UNKNOWN_VARIANT, "unknown; {remedy}", {"remedy": remedy, "field": field, "name": name}
        )

    return BeforeValidator(read)


def tag_own(field: str) -> Callable[[Any], str]:
    """What tells the tag of a section of plain values, or of one that is built: its name, or `OWN`."""

    def tag(values: Any) -> str:
        name = values.get(field) if isinstance(values, Mapping) else getattr(values, field)
        return OWN if isinstance(name, str) and is_own(name) else str(name)

    return tag
