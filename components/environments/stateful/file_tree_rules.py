"""The file tree's tools. A tree stays a tree: each node's folder exists, and no folder is moved into itself."""

from collections.abc import Callable
from dataclasses import dataclass
from posixpath import basename, dirname, join
from typing import Any

from components.environments.shared.text import quote_start
from components.environments.stateful.tools import Act, Argument, Done, Given, Refusal, Tool, declare_tools
from components.environments.stateful.tree import ROOT, File, Nodes, Tree, children, is_path, is_within, tree_of


@dataclass(frozen=True, slots=True)
class Disk:
    """The constant part: the protected folder, if any, and the maximum number of nodes."""

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
        return declare_tools(
            (name, summary, _on_tree(act, changes=tools is changing), dict.fromkeys(arguments, Argument(kind="text")))
            for tools in (reading, changing)
            for name, summary, act, arguments in tools
        )

    def _list(self, nodes: Nodes, given: Given) -> list[str]:
        _check_folder(nodes, given["folder"])
        inside = sorted(children(nodes, given["folder"]))
        return [basename(path) + ("/" if nodes[path] is None else "") for path in inside]

    def _read(self, nodes: Nodes, given: Given) -> Any:
        file = _file(nodes, given["file"])
        return {"text": file.text, "age": file.age}

    def _find(self, nodes: Nodes, given: Given) -> list[str]:
        return sorted(path for path, file in nodes.items() if file is not None and path.endswith(given["ending"]))

    def _make(self, nodes: Nodes, given: Given) -> Nodes:
        self._check_place(nodes, given["folder"])
        return {**nodes, given["folder"]: None}

    def _move(self, nodes: Nodes, given: Given) -> Nodes:
        source, folder = given["source"], given["folder"]
        _check_exists(nodes, source)
        if is_within(folder, source):
            raise Refusal(type="conflict", message=f"{source} cannot be moved into itself")
        target = join(folder, basename(source))
        self._check_unprotected(source)
        _check_folder(nodes, folder)
        self._check_place(nodes, target, is_new=False)
        moved = {path: target + path[len(source) :] for path in nodes if is_within(path, source)}
        if not all(map(is_path, moved.values())):
            raise Refusal(type="bad_value", message="the path would be too deep")
        return {moved.get(path, path): node for path, node in nodes.items()}

    def _copy(self, nodes: Nodes, given: Given) -> Nodes:
        file, folder = _file(nodes, given["source"]), given["folder"]
        target = join(folder, basename(given["source"]))
        _check_folder(nodes, folder)
        self._check_place(nodes, target)
        return {**nodes, target: File(age=0, text=file.text)}

    def _delete(self, nodes: Nodes, given: Given) -> Nodes:
        path = given["path"]
        _check_exists(nodes, path)
        self._check_unprotected(path)
        if children(nodes, path):
            raise Refusal(type="conflict", message=f"{path} is not empty")
        return {other: node for other, node in nodes.items() if other != path}

    def _write(self, nodes: Nodes, given: Given) -> Nodes:
        path = given["file"]
        if nodes.get(path) is None:
            self._check_place(nodes, path)
        self._check_unprotected(path)
        return {**nodes, path: File(age=0, text=given["text"])}

    def _check_place(self, nodes: Nodes, path: str, *, is_new: bool = True) -> None:
        """Raise Refusal if nothing can be put at `path`; `is_new` tells whether it adds to the number of nodes."""
        if not is_path(path):
            raise Refusal(type="bad_value", message=f"{quote_start(path)} is no path like /docs/a.txt")
        if path in nodes:
            raise Refusal(type="conflict", message=f"{path} exists")
        if is_new and len(nodes) >= self.max_nodes:
            raise Refusal(type="conflict", message="the disk is full")
        _check_folder(nodes, dirname(path))
        self._check_unprotected(path)

    def _check_unprotected(self, path: str) -> None:
        if self.protected is not None and is_within(path, self.protected):
            raise Refusal(type="permission", message=f"{self.protected} cannot be changed")


def _on_tree(act: Callable[[Nodes, Given], Any], *, changes: bool) -> Act[Tree]:
    """A tool from a function of the nodes, which returns the new nodes if it `changes` the tree, and else a value."""

    def on_tree(tree: Tree, given: Given) -> Done[Tree]:
        result = act(dict(tree), given)
        return Done(state=tree_of(result)) if changes else Done(state=tree, value=result)

    return on_tree


def _file(nodes: Nodes, path: str) -> File:
    file = nodes.get(path)
    if file is None:
        raise Refusal(type="not_found", message=f"no file {quote_start(path)}")
    return file


def _check_exists(nodes: Nodes, path: str) -> None:
    if path not in nodes:
        raise Refusal(type="not_found", message=f"no file or folder {quote_start(path)}")


def _check_folder(nodes: Nodes, path: str) -> None:
    if path != ROOT and (path not in nodes or nodes[path] is not None):
        raise Refusal(type="not_found", message=f"no folder {quote_start(path)}")
