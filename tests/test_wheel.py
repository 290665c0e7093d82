"""What is installed by the wheel: all that the packages need, and nothing else."""

import ast
import fnmatch
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("components", "tasks", "flows", "infra", "troupe")
FOR_CHECKOUTS_ALONE = {
    *("README.md", "set_up.sh", "requirements-cpu.in", "requirements-gpu.in", "compose.yaml", "make_secrets.sh"),
    *("infra/images", "infra/chart"),
}
"""Names of files, and folders: images are built from a checkout with its locks, and the chart names such images."""
OWN_CODE_BY_PATH = {
    # What these read or hand to a process lies in Python files, which every wheel holds.
    *("components/user_code.py", "components/training/launcher.py", "components/environments/math/verifier.py"),
    *(
        "components/sandbox/rootfs.py",
        "components/machine/package_files.py",
        "troupe/__init__.py",
        "infra/vllm/serve.py",
    ),
}


def build_wheel(folder: Path) -> Path:
    """The wheel of this source tree, built without a network in a copy of it."""
    source = folder / "source"
    source.mkdir()
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / name, source / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE", "prefect.yaml"):
        shutil.copy(ROOT / name, source / name)
    code = f"from setuptools.build_meta import build_wheel; build_wheel({str(folder)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        assert wheel.read("flows/prefect.yaml") == (ROOT / "prefect.yaml").read_bytes()
        return set(wheel.namelist())


def test_it_holds_the_packages_whole_and_nothing_else(names: set[str]) -> None:
    files = {path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()}
    left_out = {"__pycache__", *FOR_CHECKOUTS_ALONE}
    wanted = {path.as_posix() for path in files if not left_out & {*path.parts, *map(str, path.parents)}}
    assert {name for name in names if ".dist-info/" not in name} == wanted


def test_it_holds_every_file_that_is_read_by_path(names: set[str]) -> None:
    patterns = []
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "package_file":
                    patterns.append("/".join(map(describe_argument, node.args)))
    assert len(patterns) >= 4
    for pattern in patterns:
        assert fnmatch.filter(names, pattern) or fnmatch.filter(names, f"{pattern}/*"), pattern


def describe_argument(argument: ast.expr) -> str:
    """The text of an argument, with * for what is filled in."""
    if isinstance(argument, ast.JoinedStr):
        return "".join(describe_argument(part) if isinstance(part, ast.Constant) else "*" for part in argument.values)
    assert isinstance(argument, ast.Constant), ast.dump(argument)
    return str(argument.value)


def test_no_other_module_reads_files_beside_itself() -> None:
    found = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if any(isinstance(node, ast.Name) and node.id == "__file__" for node in ast.walk(ast.parse(path.read_text())))
    }
    assert found == OWN_CODE_BY_PATH
