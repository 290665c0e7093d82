"""A tree of folders and files as an immutable value. Paths look like `/docs/a.txt`; the root is `/`."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

ROOT = "/"
NAME = r"[a-z0-9][a-z0-9.]{0,11}"
"""The pattern of one part of a path."""
MAX_PATH_CHARACTERS = 40
_PATH = re.compile(rf"(?:/{NAME})+")


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """What a file is beside its path: its age in days, and its text. What tools write or copy has age 0."""

    age: int
    text: str


Nodes = Mapping[str, File | None]
"""Every path but the root's with its file, None for a folder."""
Tree = tuple[tuple[str, File | None], ...]
"""The same as an immutable value, in the order of the paths."""


def tree_of(nodes: Nodes) -> Tree:
    """The tree of these nodes."""
    return tuple(sorted(nodes.items(), key=lambda node: node[0]))


def is_path(text: str) -> bool:
    """Whether `text` can be the path of a file or folder."""
    return len(text) <= MAX_PATH_CHARACTERS and _PATH.fullmatch(text) is not None


def parent(path: str) -> str:
    """The folder that holds `path`."""
    return path.rpartition("/")[0] or ROOT


def base_name(path: str) -> str:
    """The last part of a path."""
    return path.rpartition("/")[2]


def joined(folder: str, name: str) -> str:
    """The path of `name` in `folder`."""
    return f"{'' if folder == ROOT else folder}/{name}"


def is_within(path: str, folder: str) -> bool:
    """Whether `path` is `folder` itself or lies somewhere under it."""
    return folder == ROOT or path == folder or path.startswith(f"{folder}/")


def children(nodes: Nodes, folder: str) -> list[str]:
    """The paths directly in a folder."""
    return [path for path in nodes if parent(path) == folder]


def empty_folders(nodes: Nodes) -> Iterator[str]:
    """The folders under which there is no file, deepest first: each is empty once those before it are gone."""
    with_files = {path for path, node in nodes.items() if node is not None}
    folders = [path for path, node in nodes.items() if node is None]
    for folder in sorted(folders, key=lambda path: (-path.count("/"), path)):
        if not any(is_within(path, folder) for path in with_files):
            yield folder
