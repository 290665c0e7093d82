"""Environments by name: built-in, from installed packages, and user-defined as `module:Name`."""

import os
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from pydantic import ValidationError

from components.environments.base import AnswerFormat
from components.environments.environment import Environment
from components.environments.family import Family
from components.environments.shared.dataset_rows import DATA_SUFFIXES, DataFile, DatasetSource, anchor_path
from components.environments.turn_orders import check_team
from components.errors import ConfigurationError
from components.frozen import Frozen
from components.machine.file_contents import FileContents, read_contents
from components.machine.sent_folder import find_sent
from components.text.escaping import show_value
from components.text.suggestions import suggest
from components.user_code import (
    check_is_current,
    import_object,
    is_custom,
    read_current_source,
    read_source,
    source_digest,
    suggest_custom,
    user_code_error,
)

if TYPE_CHECKING:
    from components.environments.agent import AgentOptions

FAMILIES: Mapping[str, str] = {
    "plan_path": "components.environments.games.plan_path:PlanPathEnvironment",
    "agent": "components.environments.agent:AgentEnvironment",
    "agent_plan_path": "components.environments.games.agent_plan_path:AgentPlanPathEnvironment",
    "sokoban": "components.environments.games.sokoban:SokobanEnvironment",
    "sudoku": "components.environments.games.sudoku:SudokuEnvironment",
    "code": "components.environments.code.environment:CodeEnvironment",
    "math": "components.environments.math.environment:MathEnvironment",
    "search": "components.environments.search.environment:SearchEnvironment",
    "shop": "components.environments.stateful.shop:ShopEnvironment",
    "calendar": "components.environments.stateful.calendar:CalendarEnvironment",
    "file_tree": "components.environments.stateful.file_tree:FileTreeEnvironment",
    "blocksworld": "components.environments.games.blocksworld:BlocksworldEnvironment",
    "eight_queens": "components.environments.games.eight_queens:EightQueensEnvironment",
    "game_boy": "components.hybrid.game_environment:GameBoyEnvironment",
    "maze": "components.environments.social.maze:MazeEnvironment",
    "social_trading": "components.environments.social.social_trading:SocialTradingEnvironment",
    "open_spiel": "components.environments.social.open_spiel:OpenSpielEnvironment",
    "petting_zoo": "components.environments.social.petting_zoo:PettingZooEnvironment",
    "coop_compete": "components.environments.social.coop_compete:CoopCompeteEnvironment",
    "led": "components.environments.social.led:LedEnvironment",
    "public_goods": "components.environments.social.public_goods:PublicGoodsEnvironment",
    "staged": "components.environments.social.staged:StagedEnvironment",
    "team_battle": "components.environments.social.team_battle:TeamBattleEnvironment",
}
"""Name -> place of a built-in environment, as in the entry points of this package, which are not searched for them because
that takes a tenth of a second. Imported on first use, because some import large libraries."""
ENTRY_POINTS = "troupe.environments"
"""The entry point group of installed packages' environments."""


def family(name: str, answer_format: AnswerFormat = "strict") -> Family:
    """The family of an environment, which reads answers as `answer_format` says.

    Raises ConfigurationError with the nearest name, or the place of an error in user code.
    """
    if name in FAMILIES:
        return _load_built_in(name, FAMILIES[name], answer_format)
    return _own(name, _own_place(name), answer_format)


def source_of(name: str, options: Mapping[str, Any]) -> str | None:
    """The digest of the source of a user-defined or installed environment, and of what the options of `agent` name; None for
    other built-in ones. Raises ConfigurationError."""
    if name == "agent":
        from components.environments.agent import digest_own_code

        return digest_own_code(_agent_options(options))
    return None if name in FAMILIES else source_digest(_own_module(name))


def digest_data(name: str, options: Mapping[str, Any]) -> str | None:
    """The digest of the local files and folders that options of a built-in environment name, at the first call in this process;
    None without any. Raises ConfigurationError."""
    named = _list_data(name, options)
    return _read_data(named).digest if named and _are_there(named) else None


def check_files_are_current(name: str, options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError if own code or data of an environment have changed since this process read them."""
    if name not in FAMILIES:
        check_is_current(f"environment.name {name!r}", read_source(_own_module(name)))
    else:
        named = _list_data(name, options)
        if named and _are_there(named):
            check_is_current("environment.options", _read_data(named), _list_files(named))
    if name == "agent":
        from components.environments.agent import list_own_code

        for option, own in list_own_code(_agent_options(options)).items():
            read_current_source(option, own)


def _agent_options(options: Mapping[str, Any]) -> "AgentOptions":
    from components.environments.agent import AgentOptions

    own = family_options("agent", options)
    assert isinstance(own, AgentOptions), f"options of another environment: {own!r}"
    return own


@cache
def _read_data(named: tuple[tuple[str, str], ...]) -> FileContents:
    """What the options' files and folders, which are there, held at the first call."""
    try:
        return read_contents(_list_files(named))
    except OSError as error:
        raise ConfigurationError(
            f"environment.options: {error.filename}: {error.strerror}; correct the path"
        ) from error


def _are_there(named: tuple[tuple[str, str], ...]) -> bool:
    """Whether all of them exist. One that does not is refused where it is loaded."""
    return all(os.path.exists(find_sent(text)) for _, text in named)


def _list_files(named: tuple[tuple[str, str], ...]) -> dict[str, Path]:
    """The files that options name, and the files of data in the folders that they name, by option and place in it."""
    found: dict[str, Path] = {}
    for option, text in named:
        path = find_sent(text)
        if os.path.isfile(path):
            found[option] = path
            continue
        for each in sorted(path.rglob("*")):
            inner = each.relative_to(path)
            # Beside data lie notes of `hf download`, and what does not travel to other hosts.
            if not DATA_SUFFIXES.isdisjoint(each.suffixes) and not any(part.startswith(".") for part in inner.parts):
                found[f"{option}/{inner.as_posix()}"] = each
    return found


def _list_data(name: str, options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The options of a built-in environment that name a local file or folder, each with its whole path."""
    if name not in FAMILIES or not any(map(_path_in, options.values())):
        return ()  # no family is imported for nothing
    named = {key: _path_in(options[key]) for key in sorted(_list_data_options(name, options))}
    return tuple((key, path) for key, path in named.items() if path is not None and os.path.isabs(path))


def _own_module(name: str) -> str:
    return _own_place(name).partition(":")[0]


def list_read_files(name: str, options: Mapping[str, Any], folder: Path) -> tuple[Path, ...]:
    """The files and folders that a built-in environment reads where it is played, by their whole paths, seen from `folder`."""
    if name not in FAMILIES:
        return ()
    anchored = anchor_options(name, options, folder)
    beside = [*(options.get("files") or ()), options.get("check")] if name == "agent" else []
    return (*(Path(path) for _, path in _list_data(name, anchored)), *(folder / each for each in beside if each))


def list_installed_environments() -> dict[str, str]:
    """Name -> `module:Name` of the environments of installed packages."""
    return {point.name: point.value for point in entry_points(group=ENTRY_POINTS) if point.name not in FAMILIES}


def _own_place(name: str) -> str:
    """`module:Name` of a user-defined or installed environment."""
    if is_custom(name):
        return name
    installed = list_installed_environments()
    if name not in installed:
        known = {**FAMILIES, **installed}
        remedy = suggest_custom(name, kind="class") or f"{suggest(name, known)}; one of your own is module:Name"
        raise ConfigurationError(f"environment.name {name!r}: unknown environment; {remedy}")
    return installed[name]


@cache
def _own(name: str, place: str, answer_format: AnswerFormat) -> Family:
    source_digest(place.partition(":")[0])  # before the import: the file may change later
    found = import_object("environment.name", place)
    if not (isinstance(found, type) and issubclass(found, Environment)):
        raise ConfigurationError(f"environment.name {name!r}: {place} is no subclass of troupe.Environment")
    check_team(name, found)
    try:
        return Family(name, found(), answer_format)
    except ConfigurationError:
        raise
    except Exception as error:  # the border to user code, which may raise anything
        raise user_code_error(f"environment.name {name!r}", error) from error


@cache
def _load_built_in(name: str, place: str, answer_format: AnswerFormat) -> Family:
    module, _, class_name = place.partition(":")
    return Family(name, getattr(import_module(module), class_name)(), answer_format, is_custom=False)


def family_options(name: str, options: Mapping[str, Any]) -> Frozen:
    """`options` of the family `name`, with defaults. Raises ConfigurationError: one line per fault, with a remedy."""
    return validate_options(family(name).options_type, options)


def anchor_options(name: str, options: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """`options` of a built-in environment with all paths of data absolute, seen from `folder`; all else, wrong values too, as
    it is."""
    texts = [_path_in(value) for value in options.values()]
    if name not in FAMILIES or not any(text != anchor_path(text, folder) for text in texts if text is not None):
        return dict(options)  # no family is imported for nothing
    named = _list_data_options(name, options)
    return {key: _anchor(value, folder) if key in named else value for key, value in options.items()}


def _list_data_options(name: str, options: Mapping[str, Any]) -> set[str]:
    fields = family(name).options_type.model_fields
    return {key for key in options.keys() & fields.keys() if _names_data(fields[key].annotation)}


def _names_data(annotation: Any) -> bool:
    kinds = (annotation, *get_args(annotation))
    return DatasetSource in kinds or any(DataFile() in getattr(kind, "__metadata__", ()) for kind in kinds)


def _path_in(value: Any) -> str | None:
    path = value.get("path") if isinstance(value, Mapping) else value
    return path if isinstance(path, str) else None


def _anchor(value: Any, folder: Path) -> Any:
    path = _path_in(value)
    if path is None:
        return value
    anchored = anchor_path(path, folder)
    return {**value, "path": anchored} if isinstance(value, Mapping) else anchored


def validate_options(options_type: type[Frozen], options: Mapping[str, Any]) -> Frozen:
    """`options` as a value of `options_type`. Raises ConfigurationError like `family_options`."""
    try:
        return options_type.model_validate(dict(options))
    except ValidationError as error:
        raise ConfigurationError("\n".join(_explain(error, options_type))) from error


def _explain(error: ValidationError, options_type: type[Frozen]) -> Iterator[str]:
    for fault in error.errors():
        path = ".".join(("environment", "options", *map(str, fault["loc"])))
        if fault["type"] == "extra_forbidden":
            remedy = suggest(str(fault["loc"][-1]), options_type.model_fields)
            yield f"{path}: unknown key (got {show_value(fault['input'])}); {remedy}"
        else:
            given = f" (got {show_value(fault['input'])})" if fault["loc"] else ""
            yield f"{path}: {fault['msg'].removeprefix('Value error, ')}{given}"
