"""The reference of the configuration, from its classes: every field with its type, default, bounds and documentation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from inspect import getdoc
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from components.config import RunConfig
from components.config.variants import Variant

KEYS = {"agents": "ROLE", "policies": "POLICY"}
"""Mappings of sections, and what stands for their keys."""
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most", "min_length": "length at least"}


def reference() -> str:
    """All fields as Markdown, a heading for each section."""
    return "\n\n".join(section("", RunConfig))


def section(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    """The heading of a section, its fields, and then the sections in it."""
    yield f"## {f'`{prefix}`' if prefix else 'The run'}"
    if vars(model).get("__doc__"):
        yield plain(getdoc(model) or "")
    yield from write_fields({"": model}, prefix)


def choice(prefix: str, variants: Sequence[type[Variant]]) -> Iterator[str]:
    """The heading of a section among whose variants a configuration chooses, the variants, and their fields."""
    chooser = variants[0].chosen_by
    named = {spelled_type(variant.model_fields[chooser].annotation): variant for variant in variants}
    named = {"one of your own" if name == "text" else name: variant for name, variant in named.items()}
    yield f"## `{prefix}`"
    yield f"One of these, by `{prefix}.{chooser}`, or by its name alone in place of the section:"
    yield "\n".join(f"- {name}: {plain(getdoc(variant) or '')}" for name, variant in named.items())
    yield from write_fields(named, prefix, without=chooser)


def write_fields(named: Mapping[str, type[BaseModel]], prefix: str, *, without: str = "") -> Iterator[str]:
    """The fields of a section's variants, each once with the names of those that have it, and then the sections in them."""
    owners: dict[tuple[str, str], list[str]] = {}
    fields: dict[tuple[str, str], FieldInfo] = {}
    for owner, model in named.items():
        for name, field in model.model_fields.items():
            key = name, field.description or ""
            owners.setdefault(key, []).append(owner)
            fields.setdefault(key, field)
    for (name, description), field in fields.items():
        if name != without and (not sections_in(field.annotation) or description):
            of = owners[name, description]
            yield entry(f"{prefix}.{name}" if prefix else name, field, of=of if len(of) < len(named) else ())
    for (name, _), field in fields.items():
        if found := sections_in(field.annotation):
            path = f"{prefix}.{name}" if prefix else name
            inner = f"{path}.{KEYS[path]}" if path in KEYS else path
            yield from section(inner, found[0]) if len(found) == 1 else choice(inner, found)


def entry(path: str, field: FieldInfo, *, of: Sequence[str] = ()) -> str:
    """One field, as an item of a list; `of` are the variants that alone have it."""
    facts = [spelled_type(field.annotation), *bounds(field), default(field), f"only of {', '.join(of)}" if of else ""]
    documentation = "".join(f"\n  {line}" for line in plain(field.description or "").splitlines())
    return f"- `{path}`: {', '.join(fact for fact in facts if fact)}" + (f"\\{documentation}" if documentation else "")


def sections_in(annotation: Any) -> list[type[Any]]:
    """The sections that a field holds, alone, as options or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in get_args(annotation) for found in sections_in(each)]


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
