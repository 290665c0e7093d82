"""Documented values and calls, checked by pydantic: what is unknown or wrong is a ConfigurationError with its remedy."""

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec, TypeVar, dataclass_transform

from pydantic import ConfigDict, Field, PlainValidator, TypeAdapter, ValidationError, validate_call
from pydantic.dataclasses import dataclass as pydantic_dataclass

from components.errors import ConfigurationError
from components.text.escaping import printable, show_value
from components.text.suggestions import suggest

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Count = Annotated[int, Field(ge=1, strict=True)]
"""No True is taken for it."""
Whole = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Above0 = Annotated[float, Field(gt=0, allow_inf_nan=False)]
AtLeast0 = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]
HIGHEST_PORT = 65535
Port = Annotated[int, Field(ge=1024, le=HIGHEST_PORT)]


def _read_path(value: Any) -> str | Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError("give the path of a file or folder")
    return value


AnyPath = Annotated[str | Path, PlainValidator(_read_path)]
Device = Literal["auto", "cpu", "cuda"]
_UNKNOWN = ("unexpected_keyword_argument", "extra_forbidden", "no_such_attribute")
_SECRET = "api_key"


@dataclass_transform(field_specifiers=(field,))
def check_fields(kind: type[T]) -> type[T]:
    """Make a dataclass whose fields are checked when it is made and when one is set, as `config.batch_size //= 2` does."""
    made: Any = pydantic_dataclass(
        config=ConfigDict(extra="forbid", validate_assignment=True, use_attribute_docstrings=True)
    )(kind)
    names = [each.name for each in fields(made)]
    for method in ("__init__", "__setattr__"):
        setattr(made, method, _explain(getattr(made, method), f"{kind.__name__} has no such field", names))
    return made  # type: ignore[no-any-return]


def check_arguments(call: Callable[P, R]) -> Callable[P, R]:
    """Check the arguments of a documented call by its annotations."""
    config = ConfigDict(arbitrary_types_allowed=True)
    checking = validate_call(config=config)(call)
    return _explain(checking, f"{call.__name__} takes no such argument", signature(call).parameters)


def _explain(call: Callable[P, R], unknown: str, names: Iterable[str]) -> Callable[P, R]:
    @functools.wraps(call)
    def check(*values: P.args, **named: P.kwargs) -> R:
        try:
            return call(*values, **named)
        except ValidationError as error:
            raise ConfigurationError("\n".join(_fault(each, unknown, names) for each in error.errors())) from error

    return check


def _fault(fault: Mapping[str, Any], unknown: str, names: Iterable[str]) -> str:
    known = list(names)
    place = [known[each] if at == 0 and each in range(len(known)) else each for at, each in enumerate(fault["loc"])]
    path = printable(".".join(map(str, place)), keep="")
    if fault["type"] in _UNKNOWN:
        return f"{path}: {unknown}; {suggest(path, known)}"
    if isinstance(fault.get("ctx", {}).get("error"), ConfigurationError):
        return str(fault["ctx"]["error"])  # which names its field
    if fault["type"].startswith("missing"):
        return f"{path}: required and missing"
    message = str(fault["msg"]).removeprefix("Value error, ")
    shown = "" if _SECRET in path else f" {show_value(fault['input'])}"
    return f"{path}{shown}: {message}" if path else message


def as_json(config: Any) -> dict[str, Any]:
    """A configuration as JSON types, without the key of an API; its class makes an equal one of them."""
    values: dict[str, Any] = TypeAdapter(type(config)).dump_python(config, mode="json", exclude={_SECRET})
    return values


def refuse_changed(config: Any, names: Iterable[str], reason: str) -> None:
    """Raise ConfigurationError for one of these fields that does not have its default, because of the reason."""
    for name in names:
        value = getattr(config, name)
        if value != type(config).__pydantic_fields__[name].get_default(call_default_factory=True):
            shown = "" if name == _SECRET else f" {show_value(value)}"
            raise ConfigurationError(f"{name}{shown}: {reason}; leave it out")
