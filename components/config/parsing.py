"""Parsing of configurations, with a remedy for every mistake."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError

from components.config.run import RunConfig
from components.errors import ConfigurationError
from components.escaping import printable, shown_value
from components.suggestions import suggest

_LONGEST_TEXT = 80
_CONTEXT = 16
"""Characters shown before the place where two long texts begin to differ, and half of those after it."""


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """`values` as a RunConfig. Raises ConfigurationError: one line per fault, with field, value and remedy."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_explained(error, values))) from error


def differing_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`path: old -> new` for each leaf in which two configurations differ; of long texts the place where they do."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    absent = "(absent)"
    changes = ((path, before.get(path, absent), after.get(path, absent)) for path in before.keys() | after.keys())
    return [f"{path}: {_change(was, becomes)}" for path, was, becomes in sorted(changes) if was != becomes]


def changed_sources(config: RunConfig, changes: Sequence[str]) -> dict[str, str]:
    """Name of own code -> its section; empty if `changes` (`path: old -> new`) name any other field.

    **Example** a change of "rewards.sources.mine:brevity" alone is {"mine:brevity": "rewards"}.
    """
    names = {
        "environment.source": config.environment.name,
        "algorithm.source": config.algorithm.advantage,
        "loss.source": config.loss.policy_loss,
        **{f"rewards.sources.{name}": name for name in config.rewards.functions},
    }
    paths = [change.partition(": ")[0] for change in changes]
    if not set(paths) <= names.keys():
        return {}
    return {names[path]: path.partition(".")[0] for path in paths}


def _change(was: Any, becomes: Any) -> str:
    """**Example** "'be brief' -> 'be kind'"; in long texts "at character 900: '…be brief' -> '…be kind'"."""
    if max(len(each) if isinstance(each, str) else 0 for each in (was, becomes)) <= _LONGEST_TEXT:
        return f"{was!r} -> {becomes!r}"
    if not (isinstance(was, str) and isinstance(becomes, str)):
        return f"{shown_value(was)} -> {shown_value(becomes)}"
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


def _explained(error: ValidationError, values: Mapping[str, Any]) -> Iterator[str]:
    for fault in error.errors():
        path = printable(".".join(str(part) for part in fault["loc"] if part != "[key]"), keep="")
        if fault["type"] == "extra_forbidden":
            known = _known_keys(fault["loc"][:-1])
            remedy = suggest(str(fault["loc"][-1]), known, otherwise=f"valid keys: {', '.join(sorted(known))}")
            yield f"{path}: unknown key; {remedy}"
        elif fault["type"] == "missing":
            yield f"{path}: required and missing"
        else:
            message = fault["msg"].removeprefix("Value error, ")
            given = "" if isinstance(fault["input"], Mapping | BaseModel) else f" (got {shown_value(fault['input'])})"
            yield f"{path}: {message}{given}" if path else f"{message}{given}"


def _known_keys(path: tuple[int | str, ...]) -> list[str]:
    """The field names of the section at `path`; a key of a mapping stands for its values."""
    section: Any = RunConfig
    for part in path:
        field = section.model_fields.get(str(part)) if hasattr(section, "model_fields") else None
        annotation = field.annotation if field is not None else section
        arguments = getattr(annotation, "__args__", ())
        models = [a for a in (annotation, *arguments) if isinstance(a, type) and issubclass(a, BaseModel)]
        section = models[0] if models else section
    return list(section.model_fields) if hasattr(section, "model_fields") else []
