"""`troupe init NAME`: writes a project with an environment, its preset and the test of its contract, or with an agent."""

import keyword
import re
from importlib.util import find_spec
from pathlib import Path

from components.environments.registry import FAMILIES
from components.errors import ConfigurationError
from components.machine.package_files import package_file
from components.text.escaping import show_value
from flows.presets import preset_values

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_NAMES = {"gitignore": ".gitignore"}


def write_project(name: str, parent: Path, *, has_agent: bool = False) -> Path:
    """Write a project into the new or empty folder `parent`/`name`, with an environment or else an agent; its path.

    Raises ConfigurationError before writing.
    """
    check_project_name(name)
    folder = parent / name
    if folder.is_symlink() or (folder.exists() and not (folder.is_dir() and not any(folder.iterdir()))):
        raise ConfigurationError(f"NAME {name!r}: {folder} already exists; choose another name, or remove it")
    folder.mkdir(exist_ok=True)
    class_name = "".join(part.capitalize() for part in name.split("_"))
    templates = package_file("troupe", f"projects/{'agent_' if has_agent else ''}files")
    for template in sorted(templates.glob("*.txt")):
        text = template.read_text(encoding="utf-8").replace("NAME", name).replace("CLASS", class_name)
        path = folder / _NAMES.get(template.stem, template.stem).replace("NAME", name)
        path.write_text(text, encoding="utf-8")
    return folder


def check_project_name(name: str) -> str:
    """`name`, if it is valid for a module, a preset and a run. Raises ConfigurationError."""
    if not _NAME.fullmatch(name) or keyword.iskeyword(name):
        raise ConfigurationError(
            f"NAME {show_value(name)}: it names a Python module and a run; use up to 63 of a-z, 0-9 and _, as my_game"
        )
    if name in preset_values() or name in FAMILIES:
        raise ConfigurationError(
            f"NAME {name!r}: Troupe has a preset or an environment of this name; choose another name"
        )
    spec = find_spec(name)
    if spec is not None and spec.origin is not None:
        raise ConfigurationError(
            f"NAME {name!r}: Python has a module of this name ({spec.origin}), which would be found first; choose another name"
        )
    return name
