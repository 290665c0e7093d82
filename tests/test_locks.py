"""The committed locks: whole, hashed, and of one mind."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent
LOCKS = [*ROOT.glob("requirements/**/*.txt"), *ROOT.glob("infra/vllm/requirements-*.txt")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
APART = {"torch", "triton"}
"""Their build depends on the machine: they lie in locks of their own."""


def entries(lock: Path) -> dict[str, str]:
    """Each package of a lock and the text that belongs to it."""
    found: dict[str, str] = {}
    for block in re.split(r"\n(?=[A-Za-z0-9])", re.sub(r"(?m)^#.*\n", "", lock.read_text())):
        name = canonicalize_name(re.split(r"[=\[ ]", block.strip(), maxsplit=1)[0])
        found[name] = found.get(name, "") + block
    return found


def versions(lock: Path) -> dict[str, set[str]]:
    return {name: set(re.findall(r"^\S+?==([^\s;\\]+)", text, re.M)) for name, text in entries(lock).items()}


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_every_package_is_pinned_and_has_a_hash(lock: Path) -> None:
    assert entries(lock)
    for name, text in entries(lock).items():
        assert re.search(r"==[\w.+!]+", text), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", text), name


def test_what_training_and_images_need_is_part_of_what_tests_need() -> None:
    everything = versions(ROOT / "requirements" / "dev.txt")
    for lock in ("troupe.txt", "images.txt"):
        for name, pinned in versions(ROOT / "requirements" / lock).items():
            assert pinned <= everything[name], name


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("troupe.txt", []),
        ("images.txt", ["ray", "cluster", "api", "populations"]),
        ("dev.txt", list(PROJECT["optional-dependencies"])),
    ],
)
def test_a_lock_meets_what_the_project_asks_for(lock: str, extras: list[str]) -> None:
    pinned = versions(ROOT / "requirements" / lock)
    asked = PROJECT["dependencies"] + [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    for requirement in map(Requirement, asked):
        name = canonicalize_name(requirement.name)
        if name in APART | {"troupe"}:
            continue
        assert any(requirement.specifier.contains(Version(version)) for version in pinned[name]), requirement


def test_every_lock_of_torch_pins_the_version_that_the_project_asks_for() -> None:
    [asked] = [Requirement(line) for line in PROJECT["dependencies"] if line.startswith("torch==")]
    for lock in ("torch-cpu.txt", "torch-pypi.txt"):
        [version] = versions(ROOT / "requirements" / lock)["torch"]
        assert asked.specifier.contains(Version(version)), lock
    assert not APART & set(entries(ROOT / "requirements" / "dev.txt"))
