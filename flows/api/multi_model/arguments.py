"""Checks of what the documented calls are given. Each returns the value, or raises ConfigurationError with name and remedy."""

from collections.abc import Callable, Iterable, Mapping
from inspect import signature
from math import isfinite
from numbers import Real
from typing import Any

from components.errors import ConfigurationError
from components.port_leases import HIGHEST_PORT
from components.suggestions import did_you_mean
from flows.api.multi_model.checked_config import number, text, whole
from flows.api.multi_model.enums import TaskPriority

LOWEST_PORT = 1024


def check_names(given: Iterable[str], known: Iterable[str], call: str) -> None:
    """Refuse the first name that `call` does not know. Its value is not shown: it may be a key."""
    names = sorted(known)
    for name in given:
        if name not in names:
            raise ConfigurationError(
                f"{name}: {call} takes no such setting; {did_you_mean(str(name), names)}settings: {', '.join(names)}"
            )


def keywords(call: Callable[..., Any]) -> list[str]:
    """The names that a call takes behind its positional arguments."""
    return [each.name for each in signature(call).parameters.values() if each.kind is each.KEYWORD_ONLY]


def mapping(name: str, value: Any) -> dict[Any, Any]:
    """A dict of what is given."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} {value!r}: give a dict")
    return dict(value)


def port(name: str, value: Any) -> int:
    """A port that needs no privilege."""
    if isinstance(value, bool) or not isinstance(value, int) or not LOWEST_PORT <= value <= HIGHEST_PORT:
        raise ConfigurationError(f"{name} {value!r}: use a whole number of {LOWEST_PORT} to {HIGHEST_PORT}")
    return value


def any_number(name: str, value: Any) -> float:
    """A finite number of any sign; those of NumPy, too."""
    if isinstance(value, bool) or not isinstance(value, Real) or not isfinite(value):
        raise ConfigurationError(f"{name} {value!r}: use a finite number")
    return float(value)


def whole_number(name: str, value: Any) -> int:
    """A whole number of any sign."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ConfigurationError(f"{name} {value!r}: use a whole number")
    return value


def priority(name: str, value: Any) -> TaskPriority:
    """A priority, as such and not by its number."""
    if not isinstance(value, TaskPriority):
        raise ConfigurationError(f"{name} {value!r}: use one of {', '.join(map(str, TaskPriority))}")
    return value


def _instructions(name: str, value: Any) -> str:
    return "" if value == "" else text(name, value)


def _stop(name: str, value: Any) -> tuple[str, ...]:
    return tuple(text(name, each) for each in ([value] if isinstance(value, str) else _listed(name, value)))


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise ConfigurationError(f"{name} {value!r}: give a text, or a list of texts")
    return list(value)


_QUESTION = {
    "instructions": _instructions,
    "max_new_tokens": whole(1),
    "temperature": number(0),
    "stop": _stop,
    "seed": whole_number,
}
_LENGTH = {"max_length": whole(2)}


def question_settings(settings: Any, call: str, *, with_length: bool = False) -> dict[str, Any]:
    """How a prompt is answered: instructions, max_new_tokens, temperature, stop, seed, and where it is allowed max_length."""
    checks: Mapping[str, Callable[[str, Any], Any]] = {**_QUESTION, **(_LENGTH if with_length else {})}
    given = mapping("settings", settings)
    check_names(given, checks, call)
    return {name: checks[name](name, value) for name, value in given.items()}
