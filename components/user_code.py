"""The user's own code, named in a configuration as `module:Name`: import, checks, and source digest."""

import ast
import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from components.errors import ConfigurationError
from components.machine.file_contents import FileContents, read_contents
from components.text.escaping import printable
from components.text.suggestions import did_you_mean

_INSTALLED = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_ROOT = Path(__file__).resolve().parent.parent
_CLASS_FIELDS = ("environment.name", "tracking.kind")
_LONGEST_NAME = 200
"""Of a module: file systems take no longer ones."""
_OURS = tuple(str(_ROOT / name) for name in ("components", "tasks", "flows", "infra", "troupe"))


def is_custom(name: str) -> bool:
    """Whether a name in a configuration is `module:Name`."""
    return ":" in name


def import_object(field: str, name: str) -> Any:
    """The object `name` (`module:Name`), from an installed module or else from the current folder.

    Raises ConfigurationError with the field, and for a module that fails with file and line.
    """
    module_name, attribute = _parts(field, name)
    make_findable(module_name, Path.cwd())
    with as_config_error(f"{field} {name!r}"):
        try:
            module = import_module(module_name)
        except ModuleNotFoundError as error:
            if not error.name or not f"{module_name}.".startswith(f"{error.name}."):
                raise
            raise ConfigurationError(
                f"{field} {name!r}: there is no module {error.name!r}; go to the folder that holds it, or install its package"
            ) from error
    if not hasattr(module, attribute):
        nearest = did_you_mean(attribute, [each for each in vars(module) if not each.startswith("_")])
        raise ConfigurationError(
            f"{field} {name!r}: {module.__file__} has no {attribute!r}{nearest and f'; {nearest}'.rstrip()}"
        )
    return getattr(module, attribute)


def names_own_code(values: Any, folder: Path) -> bool:
    """Whether any text in a configuration's `values` names a module that lies in `folder`."""
    if isinstance(values, Mapping):
        return any(names_own_code(each, folder) for each in values.values())
    if isinstance(values, list | tuple):
        return any(names_own_code(each, folder) for each in values)
    if not isinstance(values, str) or not is_custom(values):
        return False
    top = values.partition(":")[0].partition(".")[0]
    return top.isidentifier() and (os.path.isfile(folder / f"{top}.py") or os.path.isdir(folder / top))


def suggest_custom(name: str, *, kind: Literal["class", "function"]) -> str:
    """What the Python file of the current folder that `name` names could be meant for; empty without such a file.

    The file is read, not run. **Example** "guess.py here has Guess, Harder: write guess:Guess".
    """
    module_name = name.partition(":")[0].removesuffix(".py")
    path = Path.cwd() / f"{module_name.replace('.', '/')}.py"
    if not all(part.isidentifier() for part in module_name.split(".")) or not os.path.isfile(path):
        return ""
    names = _public_names(path, kind)
    if not names:
        return f"{path.name} here has no {kind} at its top"
    return f"{path.name} here has {', '.join(names)}: write {module_name}:{names[0]}"


def _public_names(path: Path, kind: Literal["class", "function"]) -> list[str]:
    """The public classes or functions at the top of a file; of its classes only the environments, if there are any."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError):
        return []
    if kind == "function":
        found = [each.name for each in body if isinstance(each, ast.FunctionDef)]
        return [name for name in found if not name.startswith("_")]
    classes = {
        each.name: {ast.unparse(base).split(".")[-1] for base in each.bases}
        for each in body
        if isinstance(each, ast.ClassDef)
    }
    environments: set[str] = {"Environment", "ToolEnvironment"}
    for name, bases in classes.items():  # a base comes before what inherits from it
        if bases & environments:
            environments.add(name)
    return [name for name in classes if not name.startswith("_") and name in environments] or [
        name for name in classes if not name.startswith("_")
    ]


def load_function(field: str, name: str, *, takes: Sequence[str], source: str | None = None) -> Callable[..., Any]:
    """The function `name` (`module:function`), which accepts the positional arguments `takes`.

    Raises ConfigurationError if it does not, or if `source`, the digest in the run's configuration, differs from the files
    here.
    """
    # The digest comes first, so that it is of the imported source even if the file changes later.
    check_source(field, name, wanted=source, found=own_source(field, name))
    found = import_object(field, name)
    call = f"{name.partition(':')[2]}({', '.join(takes)})"
    if not callable(found) or isinstance(found, type):
        raise ConfigurationError(f"{field} {name!r}: is not a function; write it as def {call}")
    try:
        inspect.signature(found).bind(*takes)
    except TypeError as error:
        raise ConfigurationError(f"{field} {name!r}: {source_location(found)}: is called as {call}: {error}") from error
    except ValueError:
        pass  # some functions of C libraries have no signature
    function: Callable[..., Any] = found
    return function


def own_source(field: str, name: str) -> str:
    """The source digest of `name`. Raises ConfigurationError unless it has the form `module:Name`."""
    return source_digest(_parts(field, name)[0])


def read_current_source(field: str, name: str) -> str:
    """The source digest of `name`, for a start. Raises ConfigurationError, also for files that have changed since this process
    read them."""
    contents = read_source(_parts(field, name)[0])
    check_is_current(f"{field} {name!r}", contents)
    return contents.digest


def check_source(field: str, name: str, *, wanted: str | None, found: str | None) -> None:
    """Raise ConfigurationError if `wanted`, the digest in the run's configuration, is given and differs from `found`."""
    if wanted not in (None, found):
        raise ConfigurationError(
            f"{field} {name!r}: its source here is {found}, and the run works with {wanted}; bring the same files to every "
            "host, or start the run again"
        )


@contextmanager
def as_config_error(what: str) -> Iterator[None]:
    """Turn any exception of own code into a ConfigurationError of one line with file and line number."""
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:  # the border to own code, which may raise anything
        raise user_code_error(what, error) from error


def source_location(function: Callable[..., Any]) -> str:
    """`file:line` of a function, or the name of its module."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return str(function.__module__) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def user_code_error(what: str, error: Exception) -> ConfigurationError:
    """The error for an exception of own code, in one line with file and line number.

    **Example** `environment.name 'guess:Guess': /home/ann/guess.py:17: ValueError: invalid literal for int()`.
    """
    place = ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    elif frames := traceback.extract_tb(error.__traceback__):
        place = f"{own_line(frames)}: "
    told = " ".join(printable(str(error), keep="").split())[:500]
    return ConfigurationError(f"{what}: {place}{type(error).__name__}: {told}")


def own_line(frames: Sequence[traceback.FrameSummary]) -> str:
    """`file:line` of the innermost of `frames` that is own code, or else of the innermost."""
    theirs = [frame for frame in frames if not frame.filename.startswith((*_OURS, "<"))] or list(frames)
    own = [frame for frame in theirs if _INSTALLED.isdisjoint(Path(frame.filename).parents)] or theirs
    return f"{own[-1].filename}:{own[-1].lineno}"


def source_digest(module_name: str) -> str:
    """The first 16 hex digits of the SHA-256 of a module's source at the first call in this process.

    The source is the module's file, or all Python files of its package, and recursively the modules in the same folder that
    they import. For an installed package only its own files count, because its neighbours have versions.
    """
    return read_source(module_name).digest


@cache
def read_source(module_name: str) -> FileContents:
    """The files of a module's source, as `source_digest` counts them, at the first call in this process."""
    make_findable(module_name, Path.cwd())
    return read_contents(_sources(module_name))


def check_is_current(named: str, contents: FileContents, files: Mapping[str, Path] = MappingProxyType({})) -> None:
    """Raise ConfigurationError, which begins with `named`, if files have changed since this process read them, or others are
    among `files`: what it imported and loaded would not be what is stored."""
    added = next((path for path in files.values() if path not in contents.seen), None)
    if changed := added or contents.find_changed():
        raise ConfigurationError(
            f"{named}: {changed} has changed since this process read it; start Python again to use it as it is now"
        )


def _parts(field: str, name: str) -> tuple[str, str]:
    """The module and the attribute of `module:Name`."""
    module_name, _, attribute = name.partition(":")
    parts = (*module_name.split("."), attribute)
    is_spelled = all(part.isidentifier() and len(part) <= _LONGEST_NAME for part in parts)
    if not is_spelled or module_name.endswith(".py"):
        meant = (
            suggest_custom(name, kind="class" if field in _CLASS_FIELDS else "function") or "for example guess:Guess"
        )
        raise ConfigurationError(f"{field} {name!r}: write it as module:Name; {meant}")
    return module_name, attribute


def make_findable(module_name: str, folder: Path) -> None:
    """Make a module of `folder` importable: installed programs do not search the current folder. Installed modules win."""
    top = module_name.partition(".")[0]
    lies_there = os.path.isfile(folder / f"{top}.py") or os.path.isdir(folder / top)
    if lies_there and str(folder) not in sys.path:
        sys.path.append(str(folder))


def find_source_places(field: str, name: str) -> tuple[str, ...]:
    """The packages and modules, as folders and files, that a process needs to import `name` beside what is installed. Raises
    ConfigurationError."""
    return _find_places(_parts(field, name)[0], Path.cwd())


@cache  # reading large packages takes seconds
def _find_places(module_name: str, here: Path) -> tuple[str, ...]:
    make_findable(module_name, here)
    ours = str(_ROOT / "components")
    folder = _folder_of(module_name.partition(".")[0])
    if folder is None or folder in _INSTALLED or module_name.startswith("components."):
        return (ours,)
    return (ours, *sorted({str(folder / place.split("/")[0]) for place in _sources(module_name)}))


def _sources(module_name: str) -> dict[str, Path]:
    """Relative path -> file of the sources in the digest."""
    top = module_name.partition(".")[0]
    folder = _folder_of(top)
    found: dict[str, Path] = {}
    names, seen = [top], {"troupe"}  # covered by the versions of the stages
    while folder is not None and names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        alone = folder / f"{name}.py"
        for path in [alone] if alone.is_file() else (folder / name).rglob("*.py"):
            found[path.relative_to(folder).as_posix()] = path
            if folder not in _INSTALLED:
                names += _list_imported_names(path)
    return found


def _folder_of(top: str) -> Path | None:
    """The folder that contains a module or package, also one without `__init__.py`; None if it has no files."""
    try:
        spec = find_spec(top)
    except ValueError:
        return None  # a module that was created by hand has no location
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).parent
    return Path(spec.origin).parent if spec.has_location and spec.origin else None


def _list_imported_names(path: Path) -> set[str]:
    """The top-level names that a file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()  # reported at the import
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in found}
