"""Sections among which a configuration chooses: one field names the variant, which has only the fields that it reads."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, get_args, get_origin

from pydantic import (
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from components.frozen import Settings
from components.text.suggestions import did_you_mean
from components.user_code import is_custom, suggest_custom

UNKNOWN_VARIANT = "unknown_variant"
"""The type of the error of a name that no variant has; its context holds the `field` that names it."""
CUSTOM_TAG = "own"
"""The tag of the variant for names of the form `module:function`."""


class Variant(Settings):
    """A section that is one of several; the field `chosen_by` says which."""

    chosen_by: ClassVar[str] = "type"

    @model_serializer(mode="wrap")
    def _write_with_its_name(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """The name stays where defaults are left out: it says whose defaults they are."""
        return {self.chosen_by: getattr(self, self.chosen_by), **write(self)}


def list_variants(union: Any) -> dict[str, type[Any]]:
    """Name -> variant of a union, without the variant for names of the user's. **Example** {"a": A, "b": B} of `A | B`."""
    classes = [_read_inside(each) for each in get_args(_read_inside(union))]
    names = {each: each.model_fields[each.chosen_by] for each in classes}
    return {str(name.default): each for each, name in names.items() if not name.is_required()}


def _read_inside(annotation: Any) -> Any:
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


@dataclass(frozen=True)
class ReadVariant:
    """What pydantic does with a section before it chooses by `field`: a mere name is a section of defaults, and a section
    without a name is of `default`. Raises an error with the nearest name.

    **Example** for `type` of a and b, default a: "b" is {"type": "b"}, and {"x": 1} is {"type": "a", "x": 1}.
    """

    field: str
    default: str
    takes_custom: bool = False
    """Whether the name may be one of the user's, `module:function`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(
            partial(self.read, [*list_variants(source)]), handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        # A section without its name is also valid as another variant, which `oneOf` would refuse.
        written = handler(schema)
        name = (
            {"type": "string"}
            if self.takes_custom
            else {"type": "string", "enum": [*written["discriminator"]["mapping"]]}
        )
        return {"anyOf": [*written["oneOf"], name]}

    def read(self, names: Sequence[str], values: Any) -> Any:
        """The section that `values` mean, of the variants called `names`; what is no section stays as it is."""
        section = {self.field: values} if isinstance(values, str) else values
        if isinstance(section, Variant):
            return section
        if not isinstance(section, Mapping):
            wanted = f"{{{self.field}: NAME}}, where NAME is one of {', '.join(names)}"
            raise PydanticCustomError("no_section", "write it as {wanted}", {"wanted": wanted})
        name = section.get(self.field, self.default)
        if isinstance(name, str) and (name in names or (self.takes_custom and is_custom(name))):
            return {**section, self.field: name}
        remedy = f"{did_you_mean(str(name), names)}there are {', '.join(map(repr, names))}"
        if self.takes_custom:
            own = suggest_custom(str(name), kind="function") or "one of your own is module:function"
            remedy += f"; {own}"
        context = {"remedy": remedy, "field": self.field, "name": name}
        raise PydanticCustomError(UNKNOWN_VARIANT, "unknown; {remedy}", context)


def tag_custom(field: str) -> Callable[[Any], str]:
    """What tells the tag of a section of plain values, or of one that is built: its name, or `CUSTOM_TAG`."""

    def tag(values: Any) -> str:
        name = values.get(field) if isinstance(values, Mapping) else getattr(values, field)
        return CUSTOM_TAG if isinstance(name, str) and is_custom(name) else str(name)

    return tag
