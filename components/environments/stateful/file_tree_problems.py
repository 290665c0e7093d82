"""Random file_tree problems, and the target tree of their requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from posixpath import basename, dirname, join
from random import Random
from typing import Any

from components.environments.stateful.tree import ROOT, File, Nodes, Tree, empty_folders, is_within, tree_of

Goal = Mapping[str, Any]

STEMS = ("ape", "bee", "cow", "dog", "elk", "fox", "gnu", "hen", "ibex", "kiwi", "lynx", "mole", "newt", "owl", "pug")
FOLDERS = ("bin", "docs", "home", "lib", "mail", "src", "var", "web")
PROTECTED = "/sys"
ARCHIVES = ("old", "attic", "vault")
WORDS = ("done", "hello", "later", "yes", "no")
_MAX_AGE = 9
_MAX_TO_ARCHIVE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Level:
    num_files: int
    num_folders: int
    goals: tuple[str, ...]
    entangled: bool = False
    """With nested folders, and a protected one."""


_LEVELS = (
    _Level(num_files=3, num_folders=1, goals=("archive",)),
    _Level(num_files=5, num_folders=2, goals=("archive", "delete", "prune")),
    _Level(num_files=7, num_folders=4, goals=("archive", "delete", "copy", "prune"), entangled=True),
    _Level(num_files=9, num_folders=5, goals=("archive", "delete", "copy", "write", "prune"), entangled=True),
)


def draw_file_tree(level: int, rng: Random) -> dict[str, Any] | None:
    """A problem, or None if there is nothing or too much to do."""
    shape = _LEVELS[level]
    archive = join(ROOT, rng.choice(ARCHIVES))
    nodes: dict[str, File | None] = {}
    for name in rng.sample(FOLDERS, shape.num_folders):
        above = rng.choice([ROOT, *nodes]) if shape.entangled else ROOT
        nodes[join(above, name)] = None
    if level == 0 or rng.random() < 0.5:
        nodes[archive] = None
    if shape.entangled:
        nodes[PROTECTED] = None
    folders = [ROOT, *nodes]
    endings = ["log", "log", "tmp", *(rng.choice(["log", "log", "tmp", "txt"]) for _ in range(shape.num_files))]
    for stem, ending in zip(rng.sample(STEMS, shape.num_files), endings, strict=False):
        nodes[join(rng.choice(folders), f"{stem}.{ending}")] = File(
            age=rng.randint(1, _MAX_AGE), text=rng.choice(WORDS)
        )
    tree = tree_of(nodes)
    goals = _goals(shape, archive, tree, rng)
    if goals is None:
        return None
    listed = [[path, None if file is None else [file.age, file.text]] for path, file in tree]
    return {"nodes": listed, "goals": goals, "protected": PROTECTED if shape.entangled else None}


def _goals(shape: _Level, archive: str, tree: Tree, rng: Random) -> list[dict[str, Any]] | None:
    files = [path for path, file in tree if file is not None and not is_within(path, PROTECTED)]
    texts = [path for path in files if path.endswith(".txt")]
    folders = [path for path, file in tree if file is None and path not in (PROTECTED, archive)]
    goals: list[dict[str, Any]] = []
    for kind in shape.goals:
        into = basename(rng.choice(folders))
        if kind == "archive":
            goals.append({"do": kind, "ending": "log", "older": rng.randint(2, 6), "into": basename(archive)})
        elif kind == "delete":
            goals.append({"do": kind, "ending": "tmp"})
        elif kind == "write":
            goals.append({"do": kind, "file": "note.md", "into": into, "text": rng.choice(WORDS)})
        elif kind == "copy":
            if not texts or basename(dirname(source := rng.choice(texts))) == into:
                return None
            goals.append({"do": kind, "file": basename(source), "into": into})
        elif rng.random() < 0.5:
            goals.append({"do": kind})
    num_moved = sum(_is_to_archive(path, file, goals[0]) for path, file in tree)
    deletes = any(goal["do"] == "delete" for goal in goals)
    num_deleted = sum(path.endswith(".tmp") for path in files)
    return None if not 0 < num_moved <= _MAX_TO_ARCHIVE or (deletes and not num_deleted) else goals


def _is_to_archive(path: str, file: File | None, goal: Goal) -> bool:
    folder = join(ROOT, goal["into"])
    older = file is not None and file.age > goal["older"]
    return older and path.endswith(f".{goal['ending']}") and dirname(path) not in (folder, PROTECTED)


def target_of(tree: Tree, goals: Sequence[Goal]) -> Tree:
    """The only tree that counts as solved: all requests are met and everything else is as in `tree`."""
    nodes = dict(tree)
    for goal in goals:
        match goal["do"]:
            case "archive":
                folder = join(ROOT, goal["into"])
                nodes.setdefault(folder, None)
                for path in [path for path, file in nodes.items() if _is_to_archive(path, file, goal)]:
                    nodes[join(folder, basename(path))] = nodes.pop(path)
            case "delete":
                doomed = [path for path in nodes if path.endswith(f".{goal['ending']}")]
                nodes = {path: nodes[path] for path in nodes if path not in doomed or is_within(path, PROTECTED)}
            case "copy":
                source = _find(nodes, goal["file"])
                file = nodes[source]
                assert file is not None, f"{source} is a folder"
                nodes[join(_find(nodes, goal["into"]), goal["file"])] = File(age=0, text=file.text)
            case "write":
                nodes[join(_find(nodes, goal["into"]), goal["file"])] = File(age=0, text=goal["text"])
    if any(goal["do"] == "prune" for goal in goals):
        empty = empty_folders(nodes, PROTECTED)
        nodes = {path: file for path, file in nodes.items() if path not in empty}
    return tree_of(nodes)


def _find(nodes: Nodes, name: str) -> str:
    return next(path for path in nodes if basename(path) == name)


def goal_text(goal: Goal) -> str:
    """**Example** `archive .log >5 old`: move the log files older than 5 days to the folder old."""
    match goal["do"]:
        case "archive":
            return f"archive .{goal['ending']} >{goal['older']} {goal['into']}"
        case "delete":
            return f"delete .{goal['ending']}"
        case "copy":
            return f"copy {goal['file']} {goal['into']}"
        case "write":
            return f"write {goal['file']} {goal['into']} {goal['text']}"
    return "prune"
