"""The environments by name."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from components.artifacts.refs import Frozen
from components.environments.base import EnvironmentFamily
from components.environments.games.plan_path import PlanPathFamily
from components.environments.games.sokoban import SokobanFamily
from components.environments.games.sudoku import SudokuFamily
from components.errors import ConfigurationError

FAMILIES: Mapping[str, EnvironmentFamily] = {
    family.name: family for family in (PlanPathFamily(), SokobanFamily(), SudokuFamily())
}


def family(name: str) -> EnvironmentFamily:
    """The family registered as `name`. Raises ConfigurationError with the nearest name."""
    if name not in FAMILIES:
        raise ConfigurationError(f"environment.name {name!r}: unknown environment; {_remedy(name, FAMILIES)}")
    return FAMILIES[name]


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
            yield f"{path}: unknown key (got {fault['input']!r}); {remedy}"
        else:
            given = f" (got {fault['input']!r})" if fault["loc"] else ""
            yield f"{path}: {fault['msg'].removeprefix('Value error, ')}{given}"


def _remedy(name: str, known: Mapping[str, Any]) -> str:
    nearest = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"did you mean {nearest[0]!r}?" if nearest else f"valid names: {', '.join(sorted(known))}"
