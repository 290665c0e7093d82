"""Code that lies outside Troupe and is named in a configuration as `module:Name`: found, imported, known by its source."""

import ast
import hashlib
import sys
import traceback
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from components.errors import ConfigurationError
from components.plain_text import printable


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


@cache
def source_digest(module_name: str) -> str:
    """The first 16 hex digits of the SHA-256 of a module's source, as it was when this process first asked.

    For a package the source is all its Python files; for a module that lies alone, its file and those beside it that it
    imports, they too by what they import.
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
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return {}
    origin = Path(spec.origin)
    if spec.submodule_search_locations:
        return {path.relative_to(origin.parent).as_posix(): path for path in origin.parent.rglob("*.py")}
    return dict(_with_imports(origin, set()))


def _with_imports(path: Path, seen: set[Path]) -> Iterator[tuple[str, Path]]:
    if path in seen or not path.is_file():
        return
    seen.add(path)
    yield path.name, path
    for name in _imported_names(path):
        yield from _with_imports(path.with_name(f"{name}.py"), seen)
        package = path.with_name(name)
        if (package / "__init__.py").is_file():
            yield from ((inner.relative_to(path.parent).as_posix(), inner) for inner in package.rglob("*.py"))


def _imported_names(path: Path) -> set[str]:
    """The first parts of the names that a file imports."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return set()  # told when it is imported
    found = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    found |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level == 0}
    return {name.partition(".")[0] for name in found}
