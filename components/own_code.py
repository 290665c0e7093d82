"""Code that lies outside Troupe and is named in a configuration as `module:Name`: found, imported, known by its source."""

import ast
import hashlib
import inspect
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.plain_text import printable

_INSTALLED = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
_ROOT = Path(__file__).resolve().parent.parent
_OURS = tuple(str(_ROOT / name) for name in ("components", "tasks", "flows", "infra", "troupe"))


def is_own(name: str) -> bool:
    """Whether a name in a configuration is spelled `module:Name`."""
    return ":" in name


def imported(field: str, name: str) -> Any:
    """What `name` (`module:Name`) names. A module is looked for among the installed ones, then in the current folder.

    Raises ConfigurationError with the field, and, for a module that fails, with its file and line.
    """
    module_name, attribute = _parts(field, name)
    make_findable(module_name, Path.cwd())
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigurationError(
                f"{field} {name!r}: there is no module {error.name!r}; go to the folder that holds it, or install its package"
            ) from error
        raise failed(f"{field} {name!r}", error) from error
    except Exception as error:  # the border to own code: whatever it raises is told in one line
        raise failed(f"{field} {name!r}", error) from error
    if not hasattr(module, attribute):
        raise ConfigurationError(f"{field} {name!r}: {module.__file__} has no {attribute!r}")
    return getattr(module, attribute)


def own_function(field: str, name: str, *, takes: Sequence[str], source: str | None = None) -> Callable[..., Any]:
    """The function that `name` (`module:function`) names. It is called with as many positional arguments as `takes` names.

    Raises ConfigurationError where it cannot be, and where `source`, the digest that a run works with, is not that of the
    files here.
    """
    # The digest is taken first: it is of what is imported now, whatever the file says later.
    check_source(field, name, wanted=source, found=own_source(field, name))
    found = imported(field, name)
    call = f"{name.partition(':')[2]}({', '.join(takes)})"
    if not callable(found) or isinstance(found, type):
        raise ConfigurationError(f"{field} {name!r}: is no function; write it as def {call}")
    try:
        inspect.signature(found).bind(*takes)
    except TypeError as error:
        raise ConfigurationError(f"{field} {name!r}: {place_of(found)}: is called as {call}: {error}") from error
    except ValueError:
        pass  # some functions of C libraries tell no signature
    function: Callable[..., Any] = found
    return function


def own_source(field: str, name: str) -> str:
    """The digest of the source behind `name` (`module:Name`). Raises ConfigurationError for what is not written so."""
    return source_digest(_parts(field, name)[0])


def check_source(field: str, name: str, *, wanted: str | None, found: str | None) -> None:
    """Pass where `wanted`, the digest that a run works with, is that of the files here, or None. Raises ConfigurationError."""
    if wanted not in (None, found):
        raise ConfigurationError(
            f"{field} {name!r}: its source here is {found}, and the run works with {wanted}; bring the same files to every "
            "host, or start the run again"
        )


@contextmanager
def told_in_one_line(what: str) -> Iterator[None]:
    """The border to own code: whatever it raises inside is a ConfigurationError with its file and line."""
    try:
        yield
    except ConfigurationError:
        raise
    except Exception as error:  # the border to own code: whatever it raises is told in one line
        raise failed(what, error) from error


def place_of(function: Callable[..., Any]) -> str:
    """`file:line` where a function begins, or the name of its module."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return str(function.__module__) if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def failed(what: str, error: Exception) -> ConfigurationError:
    """What own code raised, in one line with the file and the line where it did.

    **Example** `environment.name 'guess:Guess': /home/ann/guess.py:17: ValueError: invalid literal for int()`.
    """
    place = ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    elif frames := traceback.extract_tb(error.__traceback__):
        theirs = [frame for frame in frames if not frame.filename.startswith((*_OURS, "<"))] or list(frames)
        own = [frame for frame in theirs if _INSTALLED.isdisjoint(Path(frame.filename).parents)] or theirs
        place = f"{own[-1].filename}:{own[-1].lineno}: "
    told = " ".join(printable(str(error), keep="").split())[:500]
    return ConfigurationError(f"{what}: {place}{type(error).__name__}: {told}")


@cache
def source_digest(module_name: str) -> str:
    """The first 16 hex digits of the SHA-256 of a module's source, as it was when this process first asked.

    The source is the file of a module, or all Python files of a package, and whatever lies beside it that these import, again
    by what they import. Of an installed package it is its own files: what lies beside those has versions. Files that are no
    Python do not count.
    """
    make_findable(module_name, Path.cwd())
    digest = hashlib.sha256()
    for name, path in sorted(_sources(module_name).items()):
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _parts(field: str, name: str) -> tuple[str, str]:
    """The module and what it holds."""
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise ConfigurationError(f"{field} {name!r}: write it as module:Name, for example guess:Guess")
    return module_name, attribute


def make_findable(module_name: str, folder: Path) -> None:
    """Let a module of `folder` be imported. Programs that are installed do not look in the current folder by themselves.

    What is installed is found before it.
    """
    top = module_name.partition(".")[0]
    lies_there = (folder / f"{top}.py").is_file() or (folder / top).is_dir()
    if lies_there and str(folder) not in sys.path:
        sys.path.append(str(folder))


def _sources(module_name: str) -> dict[str, Path]:
    """Name -> file of all that the digest covers."""
    top = module_name.partition(".")[0]
    folder = _folder_of(top)
    found: dict[str, Path] = {}
    names, seen = [top], {"troupe"}  # Troupe's own versions stand in its stages
    while folder is not None and names:
        name = names.pop()
        if name in seen:
            continue
        seen.add(name)
        alone = folder / f"{name}.py"
        for path in [alone] if alone.is_file() else (folder / name).rglob("*.py"):
            found[path.relative_to(folder).as_posix()] = path
            if folder not in _INSTALLED:
                names += _imported_names(path)
    return found


def _folder_of(top: str) -> Path | None:
    """The folder in which a module or package lies, packages without an `__init__.py` too; None where none has files."""
    try:
        spec = find_spec(top)
    except ValueError:
        return None  # a module that was made by hand says nothing of where it lies
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).parent
    return Path(spec.origin).parent if spec.has_location and spec.origin else None


def _imported_names(path: Path) -> set[str]:
    """The first parts of the names that a file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()  # told when it is imported
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in found}
