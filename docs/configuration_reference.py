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
from components.config.variants import Variant

KEYS = {"agents": "ROLE", "policies": "POLICY"}
"""Mappings of sections, and what stands for their keys."""
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most", "min_length": "length at least"}


def reference() -> str:
    """All fields as Markdown, a heading for each section."""
    return "\n\n".join(section("", RunConfig))


def section(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    """The heading of a section, its fields, and then the sections in it."""
    inner: list[tuple[str, FieldInfo]] = []
    yield f"## {f'`{prefix}`' if prefix else 'The run'}"
    if vars(model).get("__doc__"):
        yield plain(getdoc(model) or "")
    for name, field in model.model_fields.items():
        path = f"{prefix}.{name}" if prefix else name
        found = sections_in(field.annotation)
        if found:
            inner.append((f"{path}.{KEYS[path]}" if path in KEYS else path, field))
        if not found or field.description:
            yield entry(path, field)
    for path, field in inner:
        yield from sections(path, field)


def sections(path: str, field: FieldInfo) -> Iterator[str]:
    """The section of a field, or the variants among which it chooses."""
    first, *others = sections_in(field.annotation)
    variants = {variant_name(each): each for each in (first, *others) if issubclass(each, Variant)}
    yield from union(path, field, variants) if others else section(path, first)


def union(prefix: str, field: FieldInfo, variants: Mapping[str, type[Variant]]) -> Iterator[str]:
    """The heading of a union, its variants by name, each field with the variants that have it, and the sections in them."""
    chosen_by = next(iter(variants.values())).chosen_by
    default_name = f", default `{getattr(field.default, chosen_by)}`" if isinstance(field.default, Variant) else ""
    yield f"## `{prefix}`"
    told = "\n".join(f"  - `{name}`: {describe_variant(each)}" for name, each in variants.items())
    yield f"- `{prefix}.{chosen_by}`: one of these{default_name}\n{told}"
    fields = [(name, each, variant) for variant, model in variants.items() for name, each in model.model_fields.items()]
    inner: dict[str, FieldInfo] = {}
    owners: dict[str, dict[str, tuple[FieldInfo, list[str]]]] = {}
    for name, each, variant in fields:
        if name == chosen_by:
            continue
        path = f"{prefix}.{name}"
        if sections_in(each.annotation):
            inner[path] = each
        owners.setdefault(path, {}).setdefault(entry(path, each), (each, []))[1].append(variant)
    for path, entries in owners.items():
        for each, having in entries.values():
            only = f"with {chosen_by} " + " or ".join(f"`{name}`" for name in having)
            yield entry(path, each, only="" if len(having) == len(variants) else only)
    for path, each in inner.items():
        yield from sections(path, each)


def describe_variant(variant: type[Variant]) -> str:
    """What a variant is, and what it fixes of the fields that others have."""
    fields = {name for owner in variant.__mro__ if issubclass(owner, BaseModel) for name in owner.model_fields}
    fixed = {name: getattr(variant, name) for name in sorted(fields - variant.model_fields.keys())}
    said = ", ".join(f"`{name}` is `{str(value).lower()}`" for name, value in fixed.items() if value is not None)
    text = " ".join(plain(getdoc(variant) or "").split())
    return f"{text} Fixed: {said}." if said else text


def variant_name(section: type[BaseModel]) -> str:
    """What chooses a variant. **Example** `rloo`; of one for names of your own `module:function`."""
    name = section.model_fields[section.chosen_by] if issubclass(section, Variant) else None
    return "" if name is None else "module:function" if name.is_required() else str(name.default)


def entry(path: str, field: FieldInfo, *, only: str = "") -> str:
    """One field, as an item of a list."""
    facts = [spell_type(field.annotation), *bounds(field), default(field), only]
    documentation = "".join(f"\n  {line}" for line in plain(field.description or "").splitlines())
    return f"- `{path}`: {', '.join(fact for fact in facts if fact)}" + (f"\\{documentation}" if documentation else "")


def sections_in(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a field holds, alone, as options or as the values of a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for each in get_args(annotation) for found in sections_in(each)]


def spell_type(annotation: Any) -> str:
    """**Example** `"clip"` or `"gspo"`; "a list of text"."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return spell_type(inner[0])
    if origin is Literal:
        return " or ".join(f"`{value}`" for value in inner)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(spell_type(each) for each in inner))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "a mapping" if (values := spell_type(inner[1])) == "a value" else f"a mapping to {values}"
    if origin in (tuple, list):
        each = spell_type(inner[0]) if inner else ""
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
