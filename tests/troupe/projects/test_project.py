"""`troupe init`: what is written, what is refused, and that it keeps its own contract."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.session.scenario import scenario_of
from flows.preflight.checks import check_configuration
from flows.presets import all_preset_values, preset_config
from troupe.projects.project import check_project_name, write_project

ROOT = Path(__file__).resolve().parents[3]


def run_make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`make` in a project, with this Python."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = ["make", f"PYTHON={sys.executable}", *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_a_new_project_has_a_preset_that_can_be_trained_and_passes_its_own_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_project("my_game_2", tmp_path)
    assert {path.name for path in folder.iterdir()} == {
        *("my_game_2.py", "prefect.yaml", "test_my_game_2.py", "Makefile", "README.md", ".gitignore")
    }
    assert "class MyGame2(Environment)" in (folder / "my_game_2.py").read_text()
    assert not [path for path in folder.iterdir() if "NAME" in path.read_text() or "CLASS" in path.read_text()]
    monkeypatch.chdir(folder)
    assert next(iter(all_preset_values())) == "my_game_2", "the folder's own comes first"
    config = preset_config("my_game_2")
    assert config.preset == "my_game_2"
    monkeypatch.setattr(sys, "path", [*sys.path])
    check_configuration(
        scenario_of(config.model_copy(update={"store": config.store.model_copy(update={"kind": "s3"})}))
    )
    tested = run_make(folder, "test")
    assert tested.returncode == 0, tested.stderr
    assert "Ran 1 test" in tested.stderr


def test_a_new_agent_can_be_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_project("my_agent_2", tmp_path, has_agent=True)
    names = ("my_agent_2.py", "my_agent_2_judge.py", "prefect.yaml", "problems.jsonl", "README.md", ".gitignore")
    assert {path.name for path in folder.iterdir()} == {*names}
    assert not [path for path in folder.iterdir() if "NAME" in path.read_text()]
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    scenario = scenario_of(preset_config("my_agent_2"))
    check_configuration(scenario)
    problem = scenario.family.problem(scenario.options, split="train", index=0, seed=0)
    program = scenario.family.rules.program(problem)
    assert program is not None
    assert program.shown == {"ticket": problem.payload["problem"]["ticket"]}, "the answer is hidden"


def test_without_the_command_make_says_how_to_get_it(tmp_path: Path) -> None:
    folder = write_project("my_game_3", tmp_path)
    command = ["make", "-n", "test"]
    env = {"PATH": "/usr/bin:/bin"}
    lost = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert "troupe is no command in this shell: first `source`" in lost.stderr
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "troupe").write_text("")
    (tmp_path / "bin" / "troupe").chmod(0o755)
    found = {"PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
    planned = subprocess.run(command, cwd=folder, env=found, capture_output=True, text=True, check=True).stdout
    assert planned == f"{tmp_path}/bin/python -m unittest -q\n"


def test_its_test_fails_where_the_environment_breaks_the_contract(tmp_path: Path) -> None:
    folder = write_project("broken", tmp_path)
    rules = folder / "broken.py"
    rules.write_text(rules.read_text().replace("answer == str(state", "int(answer) == int(state"))
    tested = run_make(folder, "test")
    assert tested.returncode != 0
    assert "ValueError" in tested.stderr
    assert "caller wrote" in tested.stderr


@pytest.mark.parametrize(
    "name", ["", "a-b", "../x", "x/y", "Été", "été", "1st", "_x", "Mine", "class", "a" * 64, "a\nb"]
)
def test_a_name_that_cannot_be_a_module_and_a_run_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="use up to 63 of a-z, 0-9 and _"):
        check_project_name(name)


@pytest.mark.parametrize("name", ["torch", "json", "sys", "tasks", "troupe", "tiny", "plan_path"])
def test_a_name_that_is_taken_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="of this name"):
        check_project_name(name)


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert (write_project("empty", tmp_path) / "empty.py").is_file()
    before = (tmp_path / "empty" / "empty.py").read_text()
    (tmp_path / "afile").write_text("mine")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "alink").symlink_to(tmp_path / "elsewhere")
    for name in ("empty", "afile", "alink"):
        with pytest.raises(ConfigurationError, match="already exists"):
            write_project(name, tmp_path)
    assert (tmp_path / "empty" / "empty.py").read_text() == before
    assert (tmp_path / "afile").read_text() == "mine"
    assert list((tmp_path / "elsewhere").iterdir()) == []
