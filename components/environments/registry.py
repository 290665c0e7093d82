"""The environments by name."""

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from pydantic import ValidationError

from components.artifacts.refs import Frozen
from components.environments.base import EnvironmentFamily
from components.errors import ConfigurationError
from components.plain_text import shown_value

FAMILIES: Mapping[str, str] = {
    "plan_path": "components.environments.games.plan_path:PlanPathFamily",
    "sokoban": "components.environments.games.sokoban:SokobanFamily",
    "sudoku": "components.environments.games.sudoku:SudokuFamily",
    "code": "components.environments.code.family:CodeFamily",
    "math": "components.environments.math.family:MathFamily",
    "search": "components.environments.search.family:SearchFamily",
    "shop": "components.environments.stateful.shop:ShopFamily",
    "calendar": "components.environments.stateful.calendar:CalendarFamily",
    "file_tree": "components.environments.stateful.file_tree:FileTreeFamily",
    "blocksworld": "components.environments.stateful.blocksworld:BlocksworldFamily",
    "eight_queens": "components.environments.stateful.eight_queens:EightQueensFamily",
}
"""Name -> where its family lives. A family is imported when it is first asked for: some bring large libraries."""


def family(name: str) -> EnvironmentFamily:
    """The family registered as `name`. Raises ConfigurationError with the nearest name."""
    if name not in FAMILIES:
        raise ConfigurationError(f"environment.name {name!r}: unknown environment; {_remedy(name, FAMILIES)}")
    return _imported(FAMILIES[name])


@cache
def _imported(path: str) -> EnvironmentFamily:
    module, _, class_name = path.partition(":")
    made: EnvironmentFamily = getattr(import_module(module), class_name)()
    return made


def family_options(name: str, options: Mapping[str, Any]) -> Frozen:
    """`options` as the options of the family `name`, defaults filled in.

    Raises ConfigurationError: one line a fault, with the key, the value and the remedy.
    """
    options_type = family(name).options_type
    try:
        return options_type.model_validate(dict(options))
    except ValidationError as error:
        raise ConfigurationError("\n".join(_explained(error, options_type))) from error


def _explained(error: ValidationError, options_type: type[Frozen]) -> Iterator[str]:
    for fault in error.errors():
        path = ".".join(("environment", "options", *map(str, fault["loc"])))
        if fault["type"] == "extra_forbidden":
            remedy = _remedy(str(fault["loc"][-1]), options_type.model_fields)
            yield f"{path}: unknown key (got {shown_value(fault['input'])}); {remedy}"
        else:
            given = f" (got {shown_value(fault['input'])})" if fault["loc"] else ""
            yield f"{path}: {fault['msg'].removeprefix('Value error, ')}{given}"


def _remedy(name: str, known: Mapping[str, Any]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean {nearest[0]!r}?" if nearest else f"valid names: {', '.join(sorted(known))}"
