"""A tree of folders and files as an immutable value. Paths look like `/docs/a.txt`; the root is `/`."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

ROOT = "/"
NAME = r"[a-z0-9][a-z0-9.]{0,11}"
"""The pattern of one part of a path."""
MAX_PATH_CHARACTERS = 40
_PATH = re.compile(rf"(?:/{NAME})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A file without its path: its age in days, 0 if a tool wrote or copied it, and its text."""

    age: int
    text: str


Nodes = Mapping[str, File | None]
"""Path -> file, or None for a folder; the root is left out."""
Tree = tuple[tuple[str, File | None], ...]
"""The same as an immutable value, in the order of the paths."""


def tree_of(nodes: Nodes) -> Tree:
    return tuple(sorted(nodes.items(), key=lambda node: node[0]))


def is_path(text: str) -> bool:
    """Whether `text` is a valid path of a file or folder."""
    return len(text) <= MAX_PATH_CHARACTERS and _PATH.fullmatch(text) is not None


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` or below it."""
    return folder == ROOT or path == folder or path.startswith(f"{folder}/")


def children(nodes: Nodes, folder: str) -> list[str]:
    above = folder.rstrip("/")
    return [path for path in nodes if path.rpartition("/")[0] == above]


def empty_folders(nodes: Nodes, protected: str | None) -> list[str]:
    """The folders outside `protected` without a file below them, deepest first: in this order all can be deleted."""
    folders = [path for path, node in nodes.items() if node is None and not (protected and is_within(path, protected))]
    files = [path for path, node in nodes.items() if node is not None]
    empty = [folder for folder in folders if not any(is_within(path, folder) for path in files)]
    return sorted(empty, key=lambda path: (-path.count("/"), path))
