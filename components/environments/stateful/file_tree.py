"""file_tree: sort files into folders until the tree is exactly the requested one."""

import re
from collections.abc import Mapping
from posixpath import basename, dirname, join
from random import Random
from typing import Any

from components.environments.stateful.environment import WorldEnvironment
from components.environments.stateful.file_tree_problems import WORDS, draw_file_tree, goal_text, target_of
from components.environments.stateful.file_tree_rules import Disk
from components.environments.stateful.tool_world import ToolWorld, carry_out, highlight_goal
from components.environments.stateful.tools import Call
from components.environments.stateful.tree import NAME, ROOT, File, Nodes, Tree, empty_folders, tree_of

_SPARE_NODES = 6
"""How many files and folders beyond the needed ones may be made."""
_MAX_EXPERT_STEPS = 60
_PLACE = rf"(?:/|{NAME}|(?:/{NAME})+)"
_PLANNER_GUIDE = (
    "You see: the requests, | the files as name@folder age (/ is the root folder, ages are in days), | the names of the "
    "folders, | the news. `archive .log >5 old`: files ending in .log and older than 5 days shall be in the folder old of the "
    "root folder, which is made where it is missing. `delete .tmp`: no such file shall be left. `copy F D`, `write F D TEXT`: "
    "folder D shall hold a copy of file F, or a file F with that text. `prune`: no folder without a file under it shall be "
    "left. The folder sys and what is in it stay as they are, and so does all that no request speaks of.\n"
    "Steps: `move FILE FOLDER`, `copy FILE FOLDER`, `delete NAME`, `make NAME FOLDER` for a new folder in a folder, `write "
    "NAME FOLDER TEXT`, `prune`. Answer with at most {max_steps} steps separated by `;` and nothing else. Example: move "
    "zebra.txt /"
)
_TOOL_GUIDE = (
    "After the plan you see: all paths, those of folders ending in /, | the answers. The plan names files and folders without "
    "their paths; tools need paths from the root, without a / at the end. `prune` means to delete the folders without a file "
    'under them, the deepest first. Example: [{"tool":"find","ending":".zip"}]'
)


class FileTreeWorld(ToolWorld[Tree]):
    """One tree and the requests."""

    step_pattern = re.compile(
        rf"(?:move|copy) {_PLACE} {_PLACE}|delete {_PLACE}|make {NAME} {_PLACE}|write {NAME} {_PLACE} [a-z]{{1,8}}|prune"
    )
    planner_guide = _PLANNER_GUIDE
    tool_guide = _TOOL_GUIDE
    max_step_characters = 40
    max_call_characters = 90

    def __init__(self, payload: Mapping[str, Any]) -> None:
        super().__init__(payload)
        self.start = tree_of(
            {path: None if file is None else File(age=file[0], text=file[1]) for path, file in payload["nodes"]}
        )
        goals = payload["goals"]
        self.goal_text = ";".join(map(goal_text, goals))
        self.target = target_of(self.start, goals)
        self._prunes = any(goal["do"] == "prune" for goal in goals)
        self._protected: str | None = payload["protected"]
        most = max(len(self.start), len(self.target)) + _SPARE_NODES
        self.tools = Disk(self._protected, most).tools()

    def distance(self, state: Tree) -> int:
        """The number of wrong or missing paths; a file in the wrong folder counts twice."""
        return len({*state} ^ {*self.target})

    def planner_view(self, state: Tree) -> str:
        files = ",".join(
            f"{basename(path)}@{basename(dirname(path)) or ROOT} {file.age}" for path, file in state if file
        )
        return f"{files}|{','.join(basename(path) for path, file in state if file is None)}"

    def tool_view(self, state: Tree) -> str:
        return ",".join(path if file else f"{path}/" for path, file in state)

    def calls_for(self, state: Tree, step: str) -> list[Call]:
        nodes = dict(state)
        match step.split():
            case ["prune"]:
                return [{"tool": "delete", "path": path} for path in empty_folders(nodes, self._protected)]
            case ["delete", name]:
                path = locate(nodes, name)
                return [{"tool": "delete", "path": path}] if path else []
            case ["move" | "copy" as tool, name, place]:
                source, folder = locate(nodes, name), locate(nodes, place, folders=True)
                return [{"tool": tool, "source": source, "folder": folder}] if source and folder else []
            case ["make", name, place]:
                folder = locate(nodes, place, folders=True)
                return [{"tool": "make", "folder": join(folder, name)}] if folder else []
            case ["write", name, place, text]:
                folder = locate(nodes, place, folders=True)
                return [{"tool": "write", "file": join(folder, name), "text": text}] if folder else []
        raise AssertionError(f"{step!r} is no step of a file tree")

    def expert_steps(self, state: Tree) -> list[str]:
        steps: list[str] = []
        while len(steps) < _MAX_EXPERT_STEPS and (step := self._next_step(dict(state))) is not None:
            steps.append(step)
            state = carry_out(self, state, [step]).state
        return steps if self.distance(state) == 0 else []

    def _next_step(self, nodes: Nodes) -> str | None:
        """The step that repairs the first difference: missing folders, then missing files, then surplus paths."""
        target = dict(self.target)
        for path, wanted in sorted(target.items(), key=lambda node: (node[1] is not None, node[0].count("/"), node[0])):
            if path in nodes and nodes[path] == wanted:
                continue
            if path in nodes:
                return f"delete {name_path(nodes, path)}"
            folder = name_path(nodes, dirname(path), folders=True)
            return f"make {basename(path)} {folder}" if wanted is None else self._fetch(nodes, path, wanted, folder)
        extra = sorted((path for path in nodes if path not in target), key=lambda path: (-path.count("/"), path))
        files = [path for path in extra if nodes[path] is not None]
        if self._prunes and extra and not files:
            return "prune"
        return f"delete {name_path(nodes, (files or extra)[0])}" if extra else None

    def _fetch(self, nodes: Nodes, path: str, wanted: File, folder: str) -> str | None:
        """The step that puts the wanted file at `path`; None if it is lost."""
        target, name = dict(self.target), basename(path)
        alike = [
            other for other, file in nodes.items() if file and basename(other) == name and file.text == wanted.text
        ]
        for other in alike:
            if nodes[other] == wanted and target.get(other) != wanted:
                return f"move {name_path(nodes, other)} {folder}"
        if wanted.age > 0:
            return None
        return f"copy {name_path(nodes, alike[0])} {folder}" if alike else f"write {name} {folder} {wanted.text}"

    def random_step(self, rng: Random) -> str:
        files = [basename(path) for path, file in self.start if file]
        folders = [ROOT, *(basename(path) for path, file in self.start if file is None)]
        file, folder = rng.choice(files), rng.choice(folders)
        steps = [f"move {file} {folder}", f"move {file} {folder}", f"copy {file} {folder}", f"delete {file}"]
        return rng.choice([*steps, f"make new {folder}", f"write new.txt {folder} {rng.choice(WORDS)}", "prune"])

    def random_call(self, state: Tree, rng: Random) -> Call:
        file = rng.choice([path for path, node in state if node] or [ROOT])
        folder = rng.choice([ROOT, *(path for path, node in state if node is None)])
        transfers = [{"tool": tool, "source": file, "folder": folder} for tool in ("move", "move", "copy")]
        others = [
            {"tool": "list", "folder": folder},
            {"tool": "read", "file": file},
            {"tool": "find", "ending": ".log"},
            {"tool": "make", "folder": join(folder, "new")},
            {"tool": "delete", "path": file},
        ]
        return rng.choice([*transfers, *others])

    def picture(self, state: Tree, *, color: bool) -> str:
        rows = [
            f"{'  ' * (path.count('/') - 1)}{basename(path)}{f'  {file.age} days' if file else '/'}"
            for path, file in state
        ]
        goal = f"goal: {highlight_goal(self.goal_text, color=color)}"
        return "\n".join([ROOT, *(f"  {row}" for row in rows), goal])


class FileTreeEnvironment(WorldEnvironment[Tree]):
    """All file_tree problems.

    Level 0: files to archive. 1: also files to delete, and empty folders. 2: nested folders, one of them protected, and a
    file to copy. 3: more of all, and a file to write.
    """

    world_type = FileTreeWorld
    draw_level = staticmethod(draw_file_tree)

    def deciding(self, problem: Mapping[str, Any]) -> Mapping[str, Any]:
        """The names of the files; folders, ages and requests vary within a split."""
        return {"files": sorted(basename(path) for path, file in problem["nodes"] if file is not None)}


def locate(nodes: Nodes, place: str, *, folders: bool = False) -> str | None:
    """The path that a step refers to by path or name, files before folders, or only `folders`; None if there is none."""
    if folders and place == ROOT:
        return ROOT
    named_so = [path for path in nodes if path == place or path.endswith(f"/{place}")]
    fitting = [path for path in named_so if nodes[path] is None or not folders]
    return min(fitting, key=lambda path: (nodes[path] is None, path), default=None) if fitting else None


def name_path(nodes: Nodes, path: str, *, folders: bool = False) -> str:
    """The shortest text that refers to `path` in a step."""
    name = basename(path)
    return name if name and locate(nodes, name, folders=folders) == path else path
