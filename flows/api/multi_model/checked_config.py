"""The base of the documented configurations: plain dataclasses that check every value when it is set, and are JSON."""

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from itertools import count
from math import isfinite
from typing import Annotated, Any, ClassVar, Self, get_origin, get_type_hints

from components.errors import ConfigurationError
from components.suggestions import did_you_mean

Check = Callable[[str, Any], Any]
"""Takes a field's name and value, returns the value to keep. Raises ConfigurationError."""
_NUMBERS = count(1)
"""Of all settings of fields, in their order."""


class CheckedConfig:
    """A dataclass whose fields are checked when they are set, then and later, as `config.batch_size //= 2` does.

    A field's check is that of its type, or the one beside it, as in `Annotated[int, whole(1)]`; a subclass may name all in
    `checks`.
    """

    checks: ClassVar[Mapping[str, Check]]

    def __init_subclass__(cls) -> None:
        if "checks" not in vars(cls):
            hints = get_type_hints(cls, include_extras=True)
            cls.checks = {name: _check_of(hint) for name, hint in hints.items() if get_origin(hint) is not ClassVar}

    def __new__(cls, *values: Any, **named: Any) -> Self:
        for name in named:
            cls._check_name(name)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        number = next(_NUMBERS)
        assert is_dataclass(self)
        vars(self)["_set_at"] = {
            each.name: number for each in fields(self) if getattr(self, each.name) != _default(each)
        }

    def __setattr__(self, name: str, value: Any) -> None:
        self._check_name(name)
        object.__setattr__(self, name, self.checks[name](name, value))
        if "_set_at" in vars(self):
            vars(self)["_set_at"] = {**vars(self)["_set_at"], name: next(_NUMBERS)}

    def set_at(self, name: str) -> int:
        """A number that is higher the later the field was set; 0 if it was made with its default and not set since."""
        return int(vars(self)["_set_at"].get(name, 0))

    def to_json(self) -> dict[str, Any]:
        """The configuration as JSON types; `from_json` gives an equal one. Keys of APIs are left out."""
        assert is_dataclass(self)
        return {each.name: _plain(getattr(self, each.name)) for each in fields(self) if each.name != "api_key"}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The configuration that `to_json` wrote. Raises ConfigurationError for unknown keys."""
        return cls(**stored)

    @classmethod
    def _check_name(cls, name: str) -> None:
        if name not in cls.checks:
            known = did_you_mean(name, cls.checks)
            raise ConfigurationError(f"{cls.__name__}.{name}: no such field; {known}fields: {', '.join(cls.checks)}")


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


def _check_of(hint: Any) -> Check:
    if get_origin(hint) is Annotated:
        check: Check = hint.__metadata__[0]
        return check
    simple: dict[Any, Check] = {
        bool: flag,
        str: text,
        str | None: maybe_text,
        list[str]: texts,
        dict[str, str]: text_by_text,
    }
    if hint in simple:
        return simple[hint]
    return one_of(hint) if issubclass(hint, Enum) else part(hint)


def _plain(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, CheckedConfig):
        return value.to_json()
    return json.loads(json.dumps(value))


def whole(least: int, *, also: tuple[int, ...] = (), said: str = "") -> Check:
    """An integer of at least `least`, or one of `also`. `said` begins the message of a refusal."""

    def check(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or (value < least and value not in also):
            exceptions = "".join(f", or {each}" for each in also)
            raise ConfigurationError(f"{said}{name} {value!r}: use a whole number of {least} or more{exceptions}")
        return value

    return check


def number(least: float, most: float = float("inf"), *, above: bool = False) -> Check:
    """A finite number from `least` (if `above`, more than that) to `most`."""

    def check(name: str, value: Any) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        if not is_number or not least <= value <= most or (above and value == least):
            upper = f" to {most:g}" if isfinite(most) else " or more"
            raise ConfigurationError(
                f"{name} {value!r}: use {f'more than {least:g}' if above else f'{least:g}{upper}'}"
            )
        return float(value)

    return check


def maybe_number(least: float) -> Check:
    """A finite number of `least` or more, or None."""
    check = number(least)
    return lambda name, value: None if value is None else check(name, value)


def maybe_whole(least: int) -> Check:
    """An integer of at least `least`, or None."""
    check = whole(least)
    return lambda name, value: None if value is None else check(name, value)


def one_of(kind: type[Enum]) -> Check:
    """A member of an enum, given as such or by its value."""

    def check(name: str, value: Any) -> Enum:
        try:
            return kind(value)
        except ConfigurationError:
            raise
        except ValueError as error:
            values = ", ".join(str(each.value) for each in kind)
            raise ConfigurationError(f"{name} {value!r}: use one of {values}") from error

    return check


def part(kind: type[CheckedConfig]) -> Check:
    """Another configuration, given as such or as its JSON."""

    def check(name: str, value: Any) -> CheckedConfig:
        if isinstance(value, kind):
            return value
        if not isinstance(value, Mapping):
            raise ConfigurationError(f"{name} {value!r}: give a {kind.__name__}")
        return kind.from_json(value)

    return check


def given(kind: type[CheckedConfig]) -> Check:
    """A configuration, and no dict of its fields."""

    def check(name: str, value: Any) -> CheckedConfig:
        if not isinstance(value, kind):
            of_json = f", as {kind.__name__}.from_json makes of a dict" if isinstance(value, Mapping) else ""
            raise ConfigurationError(f"{name} {value!r}: give a {kind.__name__}{of_json}")
        return value

    return check


def text(name: str, value: Any) -> str:
    """A string that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigurationError(f"{name} {value!r}: give a text")
    return value


def maybe_text(name: str, value: Any) -> str | None:
    """A string that is not empty, or None."""
    return None if value is None else text(name, value)


def texts(name: str, value: Any) -> list[str]:
    """A list of one text or more."""
    if not isinstance(value, list | tuple) or not value:
        raise ConfigurationError(f"{name} {value!r}: give a list of one text or more")
    return [text(name, each) for each in value]


def settings_by_type(name: str, value: Any) -> dict[str, dict[str, Any]]:
    """Settings by the type of a model, which the run's configuration checks."""
    if not isinstance(value, Mapping) or not all(isinstance(each, Mapping) for each in value.values()):
        raise ConfigurationError(f"{name} {value!r}: give a dict of settings for each type, as {{'openai': {{...}}}}")
    return {text(name, kind): dict(each) for kind, each in value.items()}


def flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool):
        raise ConfigurationError(f"{name} {value!r}: use True or False")
    return value


def text_by_text(name: str, value: Any) -> dict[str, str]:
    """A mapping from texts to texts."""
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{name} {value!r}: give a dict of texts")
    return {text(name, key): text(f"{name}[{key!r}]", each) for key, each in value.items()}
