"""The file tree's tools. A tree stays a tree: each node's folder exists, and nothing is moved into itself."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from components.environments.shared.text import shown
from components.environments.stateful.tools import Act, Argument, Done, Refusal, Tool, declared
from components.environments.stateful.tree import (
    ROOT,
    File,
    Nodes,
    Tree,
    base_name,
    children,
    is_path,
    is_within,
    joined,
    parent,
    tree_of,
)

Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Disk:
    """What never changes: a folder that nobody may change (None: there is none), and how many nodes fit."""

    protected: str | None
    max_nodes: int

    def tools(self) -> dict[str, Tool[Tree]]:
        """The tools by name."""
        reading = (
            ("list", "names what is in a folder", self._list, ("folder",)),
            ("read", "gives a file's text and age in days", self._read, ("file",)),
            ("find", "lists the files whose names end so", self._find, ("ending",)),
        )
        changing = (
            ("make", "makes an empty folder", self._make, ("folder",)),
            ("move", "moves a file or folder into a folder", self._move, ("source", "folder")),
            ("copy", "copies a file into a folder; the copy is new", self._copy, ("source", "folder")),
            ("delete", "deletes a file or an empty folder", self._delete, ("path",)),
            ("write", "makes or overwrites a file", self._write, ("file", "text")),
        )
        return declared(
            (name, summary, on_tree(act), dict.fromkeys(arguments, Argument(kind="text")))
            for tools, on_tree in ((reading, _reading), (changing, _changing))
            for name, summary, act, arguments in tools
        )

    def _list(self, nodes: Nodes, given: Given) -> Any:
        folder = given["folder"]
        if refusal := _no_folder(nodes, folder):
            return refusal
        return [base_name(path) + ("/" if nodes[path] is None else "") for path in sorted(children(nodes, folder))]

    def _read(self, nodes: Nodes, given: Given) -> Any:
        file = nodes.get(given["file"])
        if file is None:
            return _not_found("file", given["file"])
        return {"text": file.text, "age": file.age}

    def _find(self, nodes: Nodes, given: Given) -> Any:
        return sorted(path for path, file in nodes.items() if file is not None and path.endswith(given["ending"]))

    def _make(self, nodes: Nodes, given: Given) -> Nodes | Refusal:
        refusal = self._no_place(nodes, given["folder"])
        return refusal or {**nodes, given["folder"]: None}

    def _move(self, nodes: Nodes, given: Given) -> Nodes | Refusal:
        source, folder = given["source"], given["folder"]
        if source not in nodes:
            return _not_found("file or folder", source)
        if is_within(folder, source):
            return Refusal(type="conflict", message=f"{source} cannot be moved into itself")
        target = joined(folder, base_name(source))
        refusal = self._forbidden(source) or _no_folder(nodes, folder) or self._no_place(nodes, target, is_new=False)
        if refusal:
            return refusal
        moved = {path: node for path, node in nodes.items() if is_within(path, source)}
        if not all(is_path(target + path[len(source) :]) for path in moved):
            return Refusal(type="bad_value", message="the path would be too deep")
        kept = {path: node for path, node in nodes.items() if path not in moved}
        return {**kept, **{target + path[len(source) :]: node for path, node in moved.items()}}

    def _copy(self, nodes: Nodes, given: Given) -> Nodes | Refusal:
        file, folder = nodes.get(given["source"]), given["folder"]
        if file is None:
            return _not_found("file", given["source"])
        target = joined(folder, base_name(given["source"]))
        refusal = _no_folder(nodes, folder) or self._no_place(nodes, target)
        return refusal or {**nodes, target: File(age=0, text=file.text)}

    def _delete(self, nodes: Nodes, given: Given) -> Nodes | Refusal:
        path = given["path"]
        if path not in nodes:
            return _not_found("file or folder", path)
        if refusal := self._forbidden(path):
            return refusal
        if children(nodes, path):
            return Refusal(type="conflict", message=f"{path} is not empty")
        return {other: node for other, node in nodes.items() if other != path}

    def _write(self, nodes: Nodes, given: Given) -> Nodes | Refusal:
        path = given["file"]
        overwrites = nodes.get(path) is not None
        refusal = self._forbidden(path) if overwrites else self._no_place(nodes, path)
        return refusal or {**nodes, path: File(age=0, text=given["text"])}

    def _no_place(self, nodes: Nodes, path: str, *, is_new: bool = True) -> Refusal | None:
        """Why nothing can come to `path`; `is_new` tells whether it adds to what is on the disk."""
        if not is_path(path):
            return Refusal(type="bad_value", message=f"{shown(path)} is no path like /docs/a.txt")
        if path in nodes:
            return Refusal(type="conflict", message=f"{path} exists")
        if is_new and len(nodes) >= self.max_nodes:
            return Refusal(type="conflict", message="the disk is full")
        return _no_folder(nodes, parent(path)) or self._forbidden(path)

    def _forbidden(self, path: str) -> Refusal | None:
        if self.protected is not None and is_within(path, self.protected):
            return Refusal(type="permission", message=f"{self.protected} cannot be changed")
        return None


def _reading(act: Callable[[Nodes, Given], Any]) -> Act[Tree]:
    """Answers with a value and changes nothing."""

    def on_tree(tree: Tree, given: Given) -> Done[Tree] | Refusal:
        value = act(dict(tree), given)
        return value if isinstance(value, Refusal) else Done(state=tree, value=value)

    return on_tree


def _changing(act: Callable[[Nodes, Given], Nodes | Refusal]) -> Act[Tree]:
    """Gives the nodes of the tree after it."""

    def on_tree(tree: Tree, given: Given) -> Done[Tree] | Refusal:
        nodes = act(dict(tree), given)
        return nodes if isinstance(nodes, Refusal) else Done(state=tree_of(nodes))

    return on_tree


def _no_folder(nodes: Nodes, path: str) -> Refusal | None:
    if path == ROOT or (path in nodes and nodes[path] is None):
        return None
    return _not_found("folder", path)


def _not_found(what: str, path: str) -> Refusal:
    return Refusal(type="not_found", message=f"no {what} {shown(path)}")
