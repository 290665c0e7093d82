"""The reference of the configuration, from its classes: every field with its type, default, bounds and documentation."""

import re
from collections.abc import Iterator, Mapping
from inspect import getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from components.config import RunConfig

KEYS = {"agents": "ROLE", "policies": "POLICY"}
"""Mappings of sections, and what stands for their keys."""
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most", "min_length": "length at least"}


def reference() -> str:
    """All fields as Markdown, a heading for each section."""
    return "\n\n".join(section("", RunConfig))


def section(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    """The heading of a section, its fields, and then the sections in it."""
    inner: list[tuple[str, type[BaseModel]]] = []
    yield f"## {f'`{prefix}`' if prefix else 'The run'}"
    if vars(model).get("__doc__"):
        yield plain(getdoc(model) or "")
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        found = section_in(field.annotation)
        if found is not None:
            inner.append((f"{path}.{KEYS[path]}" if path in KEYS else path, found))
        if found is None or field.description:
            yield entry(path, field)
    for path, found in inner:
        yield from section(path, found)


def entry(path: str, field: FieldInfo) -> str:
    """One field, as an item of a list."""
    facts = [spelled_type(field.annotation), *bounds(field), default(field)]
    documentation = "".join(f"\n  {line}" for line in plain(field.description or "").splitlines())
    return f"- `{path}`: {', '.join(fact for fact in facts if fact)}" + (f"\\{documentation}" if documentation else "")


def section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a field holds, alone, as an option or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for each in get_args(annotation) if (found := section_in(each)) is not None), None)


def spelled_type(annotation: Any) -> str:
    """**Example** `"clip"` or `"gspo"`; "a list of text"."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return spelled_type(inner[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(spelled_type(each) for each in inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping" if (values := spelled_type(inner[1])) == "a value" else f"a mapping to {values}"
    if origin in (tuple, list):
        each = spelled_type(inner[0]) if inner else ""
        return "a list of sections" if each == "a section" else f"a list of {each}" if each else "a list"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a section"
    names = {str: "text", int: "an integer", float: "a number", bool: "true or false", NoneType: "nothing"}
    return names.get(annotation, "a value")


def bounds(field: FieldInfo) -> Iterator[str]:
    for each in field.metadata:
        for name, word in BOUNDS.items():
            if (bound := getattr(each, name, None)) is not None:
                yield f"{word} {bound:g}"


def default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.default if field.default is not PydanticUndefined else field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return ""
    if value is None or isinstance(value, bool):
        return f"default {({None: 'nothing', True: 'true', False: 'false'})[value]}"
    if value in ((), {}, ""):
        return "default empty"
    return f"default `{list(value) if isinstance(value, tuple) else value}`"


def plain(text: str) -> str:
    """Documentation as Markdown in which nothing but code is markup."""
    parts = re.split(r"(`[^`\n]+`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([<>*\[\]~])", r"\\\1", part) for part in parts)
