"""The folder in which a program of an agent works: what it finds there, and what of it is kept. Standard library only."""

from collections.abc import Iterable, Mapping
from pathlib import Path

MAX_OUTPUT_BYTES = 64 << 10
"""Of the end of what a program prints, and of each file that it leaves."""


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files below `folder`. Raises ValueError for a path that leads out of it."""
    for path, text in files.items():
        place = (folder / path).resolve()
        if not place.is_relative_to(folder.resolve()):
            raise ValueError(f"{path!r} is outside of the program's folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")


def read_outputs(folder: Path, outputs: Iterable[str]) -> dict[str, str]:
    """The named regular files that are there; what a program links to is not read."""
    found = {}
    for name in outputs:
        path = folder / name
        if (
            path.is_file()
            and path.resolve().is_relative_to(folder.resolve())
            and path.stat().st_size <= MAX_OUTPUT_BYTES
        ):
            found[name] = path.read_bytes().decode(errors="replace")
    return found
