"""The digest of own code covers exactly its sources."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components import user_code
from components.environments.registry import family
from components.errors import ConfigurationError
from components.user_code import import_object, is_custom, names_own_code, read_source, source_digest, suggest_custom

_numbers = itertools.count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the current folder that imports a package and another module there."""
    name = f"own_code_{next(_numbers)}"
    (tmp_path / f"{name}.py").write_text(f"import json\nfrom {name}_rules import ANSWER\nimport {name}_parts.inner\n")
    (tmp_path / f"{name}_rules.py").write_text(f"ANSWER = 42\nimport {name}\n")
    (tmp_path / f"{name}_parts").mkdir()
    (tmp_path / f"{name}_parts" / "__init__.py").write_text("")
    (tmp_path / f"{name}_parts" / "inner.py").write_text("DEPTH = 1\n")
    (tmp_path / "unrelated.py").write_text("1 / 0\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    yield name
    sys.path[:] = before


def fresh_digest(module: str) -> str:
    read_source.cache_clear()
    return source_digest(module)


@pytest.mark.parametrize("changed", ["{}.py", "{}_rules.py", "{}_parts/inner.py"])
def test_every_file_that_takes_part_counts(module: str, tmp_path: Path, changed: str) -> None:
    before = fresh_digest(module)
    assert fresh_digest(module) == before
    path = tmp_path / changed.format(module)
    path.write_text(path.read_text() + "# another thought\n")
    assert fresh_digest(module) != before


def test_files_that_take_no_part_do_not_count(module: str, tmp_path: Path) -> None:
    before = fresh_digest(module)
    (tmp_path / "unrelated.py").write_text("2 / 0\n")
    (tmp_path / "notes.txt").write_text("x")
    assert fresh_digest(module) == before


def test_a_package_is_all_its_files(module: str, tmp_path: Path) -> None:
    package = f"{module}_parts"
    before = fresh_digest(package)
    assert fresh_digest(f"{package}.inner") == before
    (tmp_path / package / "more.py").write_text("")
    assert fresh_digest(package) != before


def test_a_package_without_an_init_file_is_known_by_its_files_too(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_bare").mkdir()
    path = tmp_path / f"{module}_bare" / "inside.py"
    path.write_text("x = 1\n")
    before = fresh_digest(f"{module}_bare.inside")
    path.write_text("x = 2\n")
    assert fresh_digest(f"{module}_bare.inside") != before


def test_what_a_package_imports_from_beside_it_counts(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_parts" / "inner.py").write_text(f"import {module}_rules\n")
    before = fresh_digest(f"{module}_parts")
    (tmp_path / f"{module}_rules.py").write_text("ANSWER = 43\n")
    assert fresh_digest(f"{module}_parts") != before


def test_of_installed_code_its_own_files_count() -> None:
    assert {name.partition("/")[0] for name in user_code._sources("pydantic")} == {"pydantic"}
    assert set(user_code._sources("typing_extensions")) == {"typing_extensions.py"}


def test_where_the_source_lies_does_not_count(module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = fresh_digest(module)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for path in [*tmp_path.glob("own_code_*")]:
        path.rename(elsewhere / path.name)
    sys.path.remove(str(tmp_path))
    monkeypatch.chdir(elsewhere)
    assert fresh_digest(module) == before


def test_the_digest_is_of_what_was_read_first(module: str, tmp_path: Path) -> None:
    before = fresh_digest(module)
    (tmp_path / f"{module}.py").write_text("")
    assert source_digest(module) == before


def test_modules_of_the_current_folder_are_found_and_hide_no_installed_one(module: str, tmp_path: Path) -> None:
    assert import_object("field", f"{module}:ANSWER") == 42
    (tmp_path / "json.py").write_text("loads = None\n")
    assert import_object("field", "json:loads") is not None


def test_a_module_that_fails_is_told_with_its_line(module: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^field 'unrelated:x': .*unrelated\.py:1: ZeroDivisionError: division"
    ):
        import_object("field", "unrelated:x")


def test_a_mistake_that_a_library_finds_is_told_where_own_code_made_it(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_rules.py").write_text("import json\n\njson.loads('x')\n")
    with pytest.raises(ConfigurationError, match=r"_rules\.py:3: JSONDecodeError: Expecting value"):
        import_object("field", f"{module}:ANSWER")


def test_a_missing_module_inside_is_not_taken_for_the_module(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}_rules.py").write_text("import not_installed_anywhere\n")
    with pytest.raises(ConfigurationError, match=r"_rules\.py:1: ModuleNotFoundError: No module named 'not_installed"):
        import_object("field", f"{module}:ANSWER")


def test_names_with_a_colon_are_own_code() -> None:
    assert is_custom("guess:Guess")
    assert not is_custom("plan_path")


@pytest.mark.parametrize(
    ("name", "kind", "suggested"),
    [
        ("mine", "class", "mine.py here has Base, Few: write mine:Base"),
        ("mine.py:Few", "class", "mine.py here has Base, Few: write mine:Base"),
        ("mine:", "function", "mine.py here has brevity: write mine:brevity"),
        ("pkg.mod", "class", "mod.py here has Deep: write pkg.mod:Deep"),
        ("plain", "class", "plain.py here has A: write plain:A"),
        ("broken", "class", "broken.py here has no class at its top"),
        *((name, "class", "") for name in ("absent", "pkg", "../mine", "", ":Base")),
    ],
)
def test_a_file_of_the_folder_is_suggested_by_its_names_and_never_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: Any, suggested: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # which the folder joins
    (tmp_path / "mine.py").write_text(
        "1 / 0\nclass Other: pass\nclass Base(Environment): pass\nclass Few(Base): pass\nclass _No(Base): pass\n"
        "def brevity(): pass\n"
    )
    (tmp_path / "plain.py").write_text("class A: pass\n")
    (tmp_path / "broken.py").write_text("class A(:\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "mod.py").write_text("class Deep(troupe.ToolEnvironment): pass\n")
    assert suggest_custom(name, kind=kind) == suggested
    if suggested and kind == "class":
        with pytest.raises(ConfigurationError, match=suggested):
            family(name)


@pytest.mark.parametrize(
    ("value", "is_own"),
    [
        ("mine:X", True),
        ("pack.sub:f", True),
        ("other:X", False),
        ("mine", False),
        ("http://mine:80", False),
        (3, False),
    ],
)
def test_code_of_a_folder_is_found_anywhere_in_a_configuration(value: Any, is_own: bool, tmp_path: Path) -> None:
    (tmp_path / "mine.py").touch()
    (tmp_path / "pack").mkdir()
    assert names_own_code({"a": {"b": [1, {"c": value}]}, "d": None}, tmp_path) is is_own
