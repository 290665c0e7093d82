"""Parsing of configurations, with a remedy for every mistake."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from components.config.run import RunConfig
from components.config.variants import CUSTOM_TAG, UNKNOWN_VARIANT, Variant
from components.errors import ConfigurationError
from components.text.escaping import printable, show_value
from components.text.suggestions import suggest

_LONGEST_TEXT = 80
_CONTEXT = 16
"""Characters shown before the place where two long texts begin to differ, and half of those after it."""
Section = TypeVar("Section", bound=BaseModel)


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """`values` as a RunConfig. Raises ConfigurationError: one line per fault, with field, value and remedy."""
    return parse_section(RunConfig, values)


def parse_section(kind: type[Section], values: Mapping[str, Any], *, place: str = "") -> Section:
    """`values` as a section that stands at `place`. Raises ConfigurationError as `parse_config` does.

    **Example** `parse_section(StoreConfig, {"rot": "x"}, place="store")`: "store.rot: unknown key; did you mean 'root'".
    """
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_explain(error, kind, place))) from error


def differing_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`path: old -> new` for each leaf in which two configurations differ; of long texts the place where they do."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    absent = "(absent)"
    changes = ((path, before.get(path, absent), after.get(path, absent)) for path in before.keys() | after.keys())
    return [f"{path}: {_change(was, becomes)}" for path, was, becomes in sorted(changes) if was != becomes]


def find_changed_sources(config: RunConfig, changes: Sequence[str]) -> dict[str, str]:
    """Name of own code, or of the data -> its section; empty if `changes` (`path: old -> new`) name any other field.

    **Example** a change of "rewards.sources.mine:brevity" alone is {"mine:brevity": "rewards"}.
    """
    names = {
        "environment.source": config.environment.name,
        "environment.data": f"the data of {config.environment.name}",
        "algorithm.source": config.algorithm.advantage,
        "loss.source": config.loss.policy_loss,
        **{f"rewards.sources.{name}": name for name in config.rewards.functions},
    }
    paths = [change.partition(": ")[0] for change in changes]
    if not set(paths) <= names.keys():
        return {}
    return {names[path]: path.partition(".")[0] for path in sorted(paths)}


def _change(was: Any, becomes: Any) -> str:
    """**Example** "'be brief' -> 'be kind'"; in long texts "at character 900: '…be brief' -> '…be kind'"."""
    if max(len(each) if isinstance(each, str) else 0 for each in (was, becomes)) <= _LONGEST_TEXT:
        return f"{was!r} -> {becomes!r}"
    if not (isinstance(was, str) and isinstance(becomes, str)):
        return f"{show_value(was)} -> {show_value(becomes)}"
    pairs = enumerate(zip(was, becomes, strict=False))
    at = next((number for number, (old, new) in pairs if old != new), min(len(was), len(becomes)))
    parts = [text[max(at - _CONTEXT, 0) : at + 2 * _CONTEXT] for text in (was, becomes)]
    return f"at character {at}: {parts[0]!r} -> {parts[1]!r}"


def _leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping) and values:
        for key, value in values.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values


def _explain(error: ValidationError, kind: type[BaseModel], place: str) -> Iterator[str]:
    for fault in error.errors():
        names, section, others = _locate([part for part in fault["loc"] if part != "[key]"], kind)
        path = printable(".".join([*([place] if place else []), *names]), keep="")
        if fault["type"] == "extra_forbidden":
            known = [*section.model_fields] if section is not None else []
            moved = (_MOVED.get(path) if kind is RunConfig else None) or _owner(names[-1], others)
            remedy = moved or suggest(names[-1], known, otherwise=f"valid keys: {', '.join(sorted(known))}")
            yield f"{path}: unknown key; {remedy}"
        elif fault["type"] == UNKNOWN_VARIANT:
            context = fault["ctx"]
            yield f"{path}.{context['field']}: unknown; {context['remedy']} (got {show_value(context['name'])})"
        elif fault["type"] == "missing":
            yield f"{path}: required and missing"
        else:
            message = fault["msg"].removeprefix("Value error, ")
            given = "" if isinstance(fault["input"], Mapping | BaseModel) else f" (got {show_value(fault['input'])})"
            yield f"{path}: {message}{given}" if path else f"{message}{given}"


_MOVED = {
    **{name: f"write method: {{type: {name}, ...}} with what stood in it" for name in ("population", "hybrid")},
    "generation.vllm.num_replicas": "write resources.placement.replicas",
    "generation.vllm.gpu_memory_fraction": "write resources.placement.memory_fraction",
    "training.hostfile": "ranks on several hosts are placed by resources.runner ray and resources.placement.ranks spread",
}
"""Fields of before, and what takes their place."""


def list_unread_fields(path: Sequence[str], section: Mapping[str, Any], chooser: str, name: str) -> list[str]:
    """The fields of `section`, at `path` of a RunConfig, that only other variants have than the one that `chooser` names.

    **Example** ["vllm"] of {"device": "cuda", "vllm": {}} at ("generation",) with `engine` "transformers".
    """
    inside: Any = RunConfig
    for part in path:
        holders = [each for each in _sections(inside) if part in each.model_fields]
        inside = (
            holders[0].model_fields[part].annotation if holders else inside
        )  # a key of a mapping stands for its values
    variants = [each for each in _variants(inside) if each.chosen_by == chooser]
    known = next((each.model_fields for each in variants if _tag(each) == name), None)
    others = {field for each in variants for field in each.model_fields}
    return [field for field in section if known is not None and field in others and field not in known]


def _owner(field: str, variants: Sequence[type[Variant]]) -> str | None:
    """Which variants have a field that is given beside another one."""
    owners = [_tag(each) for each in variants if field in each.model_fields and _tag(each) != CUSTOM_TAG]
    return f"{variants[0].chosen_by} {' and '.join(owners)} has it" if owners else None


def _locate(
    parts: Sequence[int | str], kind: type[BaseModel]
) -> tuple[list[str], type[BaseModel] | None, Sequence[type[Variant]]]:
    """The path as a user writes it, without the tags of variants; the class of the section that holds its last part; and all
    variants of that section."""
    names: list[str] = []
    variants: Sequence[type[Variant]] = ()
    inside: Any = kind
    holder: type[BaseModel] | None = kind
    for part in parts:
        tagged = _variant(inside, part)
        if tagged is not None:
            variants, inside = _variants(inside), tagged
            continue
        if len(_sections(inside)) > 1 or inside not in variants:
            variants = ()
        names.append(str(part))
        sections = _sections(inside)
        holder = sections[0] if len(sections) == 1 else None
        fields: Mapping[str, Any] = holder.model_fields if holder is not None else {}
        # A key of a mapping stands for its values.
        inside = fields[str(part)].annotation if str(part) in fields else inside
    return names, holder, variants


def _variant(annotation: Any, tag: int | str) -> type[Variant] | None:
    """The variant that a tag names, of a union of several."""
    variants = _variants(annotation)
    return next((each for each in variants if _tag(each) == tag), None) if len(variants) > 1 else None


def _variants(annotation: Any) -> list[type[Variant]]:
    return [each for each in _sections(annotation) if issubclass(each, Variant)]


def _tag(variant: type[Variant]) -> str:
    name = variant.model_fields[variant.chosen_by]
    return CUSTOM_TAG if name.is_required() else str(name.default)


def _sections(annotation: Any) -> list[type[BaseModel]]:
    """The sections that an annotation holds: itself, options, or the values of a mapping."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, BaseModel) else []
    return [section for each in getattr(annotation, "__args__", ()) for section in _sections(each)]
