"""The README of a folder names files, folders and modules that exist."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_FILE = re.compile(r"(?:\.\./)*[\w.*-]+(?:/[\w.*-]+)*\.(?:py|yaml|toml|md|sh)|(?:\.\./)*[\w-]+(?:/[\w-]+)*/")
_MODULE = re.compile(r"(?:components|tasks|flows|infra|troupe|tests|benchmarks)(?:\.\w+)+(?::\w+)?")
_NO_MODULES = {"troupe.environments", "troupe.owner", "troupe.txt", "troupe.Dockerfile"}
"""Names of other things: a group of entry points, a label, a lock file, a recipe."""


_PAST = {"CHANGELOG.md", "docs/results.md"}
"""Pages that also speak of what is gone, or of what models wrote."""


def folder_readmes() -> list[str]:
    listed = subprocess.run(["git", "ls-files", "*/README.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    own = [name for name in listed.stdout.split() if not name.startswith("examples/") and "/files/" not in name]
    assert len(own) > 20
    return own


def exists(name: str, folder: Path) -> bool:
    """Whether `name` is a path from the folder or one above it, or the name of a file somewhere below it or in the tests."""
    name = name.rstrip("/")
    if ".." in name:
        return (folder / name).exists()
    above = [folder, *(parent for parent in folder.parents if parent == ROOT or ROOT in parent.parents)]
    tests = ROOT / "tests"
    return any(any(parent.glob(name)) for parent in above) or any(folder.rglob(name)) or any(tests.rglob(name))


def module_exists(name: str) -> bool:
    path = ROOT / name.partition(":")[0].replace(".", "/")
    return any(each.exists() for each in (path, path.with_suffix(".py"), path.parent.with_suffix(".py")))


@pytest.mark.parametrize("readme", folder_readmes())
def test_what_a_folder_readme_names_exists(readme: str) -> None:
    text = (ROOT / readme).read_text()
    words = [word for quoted in re.findall(r"`([^`\n]+)`", text) for word in quoted.split()]
    files = [word for word in words if _FILE.fullmatch(word)]
    modules = [word for word in words if _MODULE.fullmatch(word) and word not in _NO_MODULES]
    assert [word for word in files if not exists(word, (ROOT / readme).parent)] == []
    assert [word for word in modules if not module_exists(word)] == []


def test_every_class_and_function_that_a_page_names_exists() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    code = {word for name in listed if name.endswith(".py") for word in re.findall(r"\w+", (ROOT / name).read_text())}
    pages = [name for name in listed if name.endswith(".md") and name not in _PAST]
    named = [(page, word) for page in pages for word in find_names((ROOT / page).read_text())]
    assert len(named) > 150
    assert [(page, word) for page, word in named if not set(word.split(".")) <= code] == []


def find_names(page: str) -> list[str]:
    """Classes and calls in backticks. **Example** of "`TurnRules.observe`, `suggest(x)`": ["TurnRules.observe", "suggest"]."""
    quoted = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", page, flags=re.DOTALL | re.MULTILINE))
    classes = r"(?<![\w./:-])[A-Z][a-z0-9]+(?:[A-Z.][\w.]*\w)(?![\w/:-])"
    calls = r"(?<![\w./:-])[a-z_][\w.]*\w(?=\()"
    return [word for text in quoted for word in re.findall(f"{classes}|{calls}", text)]
