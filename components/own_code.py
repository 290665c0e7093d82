"""Code that lies outside Troupe and is named in a configuration as `module:Name`: found, imported, known by its source."""

import ast
import hashlib
import sys
import sysconfig
import traceback
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.plain_text import printable

_INSTALLED = {Path(sysconfig.get_paths()[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}


def is_own(name: str) -> bool:
    """Whether a name in a configuration is spelled `module:Name`."""
    return ":" in name


def imported(field: str, name: str) -> Any:
    """What `name` (`module:Name`) names. A module is looked for among the installed ones, then in the current folder.

    Raises ConfigurationError with the field, and, for a module that fails, with its file and line.
    """
    module_name, _, attribute = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise ConfigurationError(f"{field} {name!r}: write it as module:Name, for example guess:Guess")
    _make_findable(module_name)
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


def failed(what: str, error: Exception) -> ConfigurationError:
    """What own code raised, in one line with the file and the line where it did.

    **Example** `environment.name 'guess:Guess': /home/ann/guess.py:17: ValueError: invalid literal for int()`.
    """
    place = ""
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{error.filename}:{error.lineno}: "
    elif frames := traceback.extract_tb(error.__traceback__):
        ours = str(Path(__file__).resolve().parent.parent)
        theirs = [frame for frame in frames if not frame.filename.startswith((ours, "<frozen"))] or frames
        place = f"{theirs[-1].filename}:{theirs[-1].lineno}: "
    told = " ".join(printable(str(error), keep="").split())[:500]
    return ConfigurationError(f"{what}: {place}{type(error).__name__}: {told}")


def place_of(function: Callable[..., Any]) -> str:
    """Where a function of own code is written. **Example** "/home/ann/guess.py:17"."""
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


@cache
def source_digest(module_name: str) -> str:
    """The first 16 hex digits of the SHA-256 of a module's source, as it was when this process first asked.

    The source is the file of a module, or all Python files of a package, and whatever lies beside it that these import, again
    by what they import. Of an installed package it is its own files: what lies beside those has versions. Files that are no
    Python do not count.
    """
    _make_findable(module_name)
    digest = hashlib.sha256()
    for name, path in sorted(_sources(module_name).items()):
        digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:16]


def _make_findable(module_name: str) -> None:
    """Programs that are installed do not look for modules in the current folder. What is installed is found before it."""
    top, here = module_name.partition(".")[0], Path.cwd()
    lies_here = (here / f"{top}.py").is_file() or (here / top).is_dir()
    if lies_here and str(here) not in sys.path:
        sys.path.append(str(here))


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
    spec = find_spec(top)
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
