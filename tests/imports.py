"""Which of Troupe's modules imports which, late imports and those for types included."""

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("components", "tasks", "flows", "infra", "troupe")
"""From right to left: each may import those before it."""

Graph = Mapping[str, frozenset[str]]


def module_name(path: Path, root: Path = ROOT) -> str:
    """**Example** `components.artifacts.base`; a package goes by the name of its folder."""
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def sources(root: Path = ROOT) -> list[Path]:
    """Every Python file of the five layers."""
    return sorted(path for layer in LAYERS for path in (root / layer).rglob("*.py"))


def import_graph(root: Path = ROOT) -> Graph:
    """Module -> the modules of ours that it names in an import, at the top or inside a function."""
    paths = {module_name(path, root): path for path in sources(root)}
    return {module: frozenset(_list_imported(path, paths) - {module}) for module, path in paths.items()}


def circles(graph: Graph) -> list[tuple[str, ...]]:
    """The groups of modules that reach each other (strongly connected components of more than one), each sorted.

    **Example** a -> b, b -> a, c -> a: [("a", "b")].
    """
    reached = {module: _list_reached(graph, module) for module in graph}
    groups = {tuple(sorted(other for other in reached[module] if module in reached[other])) for module in graph}
    return sorted(group for group in groups if len(group) > 1)


def _list_reached(graph: Graph, start: str) -> set[str]:
    found, ahead = {start}, [start]
    while ahead:
        new = graph[ahead.pop()] - found
        found |= new
        ahead += new
    return found


@cache
def syntax_tree(path: Path) -> ast.Module:
    """A file that does not change while this process runs, parsed."""
    return ast.parse(path.read_text())


def _list_imported(path: Path, paths: Mapping[str, Path]) -> set[str]:
    return {*list_imported_modules(path)} & paths.keys()


@cache
def list_imported_modules(path: Path) -> frozenset[str]:
    """Every module that a file names in an import, at the top or inside a function, and every name that could be one.

    **Example** `from tasks import progress` gives `tasks` and `components.reporting.progress`.
    """
    modules: set[str] = set()
    for node in ast.walk(syntax_tree(path)):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(modules)
