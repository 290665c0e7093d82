"""How large the house is and how its rooms hang together: lines by folder, the largest file, circles, imports drawn.

    python -m benchmarks.house [--before COMMIT]

With `--before`, the lines of that commit stand beside. The drawing has a row and a column for each package, in the order of the
layers: a number is how many imports the row's package has of the column's. One to the left would stand above the diagonal.
"""

import argparse
import io
import subprocess
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

from tests.imports import LAYERS, ROOT, Graph, circles, import_graph, sources

_BESIDE = ("tests", "benchmarks")
"""Folders that are no product."""


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--before", metavar="COMMIT", help="a commit to compare with")
    before = parser.parse_args().before
    if before is None:
        print("\n".join(_told(ROOT, None)))
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = subprocess.run(["git", "archive", before], cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            tar.extractall(folder, filter="data")
        print("\n".join(_told(ROOT, Path(folder))))


def _told(root: Path, before: Path | None) -> list[str]:
    lines = lines_by_folder(root)
    former = lines_by_folder(before) if before else Counter[str]()
    folders = sorted({*lines, *former}, key=lambda folder: (folder in _BESIDE, folder))
    told = [f"{'folder':32}{'before':>8}{'lines':>8}" if before else f"{'folder':32}{'lines':>8}"]
    told += [f"{folder:32}" + (f"{former[folder]:8}" if before else "") + f"{lines[folder]:8}" for folder in folders]
    product, tests = _product(lines), lines["tests"]
    beside = f" (before: {_product(former)})" if before else ""
    longest = max(sources(root), key=_num_lines)
    graph = import_graph(root)
    return [
        *told,
        f"product {product} lines{beside}; tests {tests}, {tests / product:.2f} per line of product",
        f"largest file: {longest.relative_to(root)}, {_num_lines(longest)} lines",
        f"circles: {'; '.join(' <-> '.join(circle) for circle in circles(graph)) or 'none'}",
        "",
        *drawing(graph),
    ]


def lines_by_folder(root: Path) -> Counter[str]:
    """Lines of Python by package; all of tests as one, and all of benchmarks."""
    counted = Counter({name: sum(map(_num_lines, (root / name).rglob("*.py"))) for name in _BESIDE})
    for path in sources(root):
        counted[_package(".".join(path.relative_to(root).with_suffix("").parts))] += _num_lines(path)
    return counted


def drawing(graph: Graph) -> list[str]:
    """A matrix of imports between packages, the rightmost layer first.

    **Example** where `tasks` imports two modules of `components.artifacts`, the row of `tasks` has a 2 in that column.
    """
    count = Counter((_package(module), _package(other)) for module, others in graph.items() for other in others)
    packages = sorted({_package(module) for module in graph}, key=lambda name: (LAYERS.index(name.split(".")[0]), name))
    ordered = _lowest_first(packages, count)
    width = max(map(len, ordered)) + 3
    rows = [f"{'':{width}}" + "".join(f"{number:4}" for number in range(1, len(ordered) + 1))]
    for number, package in enumerate(ordered, start=1):
        cells = ("  --" if other == package else f"{count[package, other] or '.':>4}" for other in ordered)
        rows.append(f"{number:2} {package:{width - 3}}" + "".join(cells))
    return rows


def _lowest_first(packages: list[str], count: Counter[tuple[str, str]]) -> list[str]:
    """Inside each layer, those first that import nothing of the rest of it."""
    ordered: list[str] = []
    for layer in LAYERS:
        left = [package for package in packages if package.split(".")[0] == layer]
        while left:
            lowest = min(
                left, key=lambda package: (sum(count[package, other] for other in left if other != package), package)
            )
            ordered.append(lowest)
            left.remove(lowest)
    return ordered


def _package(module: str) -> str:
    """The package a module is counted under. **Example** `components.artifacts`; `components` for its leaves."""
    parts = module.split(".")
    return ".".join(parts[:2]) if len(parts) > 2 else parts[0]


def _product(lines: Counter[str]) -> int:
    return sum(number for folder, number in lines.items() if folder not in _BESIDE)


def _num_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


if __name__ == "__main__":
    main()
