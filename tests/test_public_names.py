"""The names that users build on."""

import doctest
import importlib
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

import troupe
import troupe.running

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("torch", "prefect", "mlflow", "transformers", "deepspeed")


def run_code(code: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """What a script in `cwd` that holds `code` prints."""
    (cwd / "script.py").write_text(code) if cwd != ROOT else None
    script = [str(cwd / "script.py")] if cwd != ROOT else ["-c", code]
    return subprocess.run([sys.executable, *script], cwd=cwd, capture_output=True, text=True, check=False)


def test_the_public_names_are_these_and_each_is_documented() -> None:
    assert set(troupe.__all__) == {
        *("Environment", "ToolEnvironment", "Demonstrator", "MalformedAnswer", "Options", "Step", "JointStep"),
        *("AgentBox", "AgentProgram", "ProgramEnd", "ProgramEnvironment"),
        *("Execution", "ExecutionResult", "IterationReport", "Passage", "Query", "Tracker"),
        *("RunConfig", "load_config", "load_metrics", "load_rollouts", "train", "evaluate", "load_team"),
        *("Episode", "Node", "Candidate", "EvalReport", "Team", "TrainingReport", "TroupeError", "ConfigurationError"),
    }
    for name in troupe.__all__:
        assert getattr(troupe, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = troupe.nothing  # type: ignore[attr-defined]


def test_importing_them_loads_no_heavy_library() -> None:
    code = f"import sys, troupe\nfrom troupe import *\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    assert run_code(code).stdout.strip() == "[]"


def test_a_notebook_completes_the_public_names_and_no_others(tmp_path: Path) -> None:
    code = (
        "import sys, troupe, rlcompleter\n"
        "assert dir(troupe) == sorted([*troupe.__all__, 'testing']), dir(troupe)\n"
        f"assert not {set(HEAVY)} & sys.modules.keys()\n"
        "found = rlcompleter.Completer(vars())\n"
        "print([found.complete('troupe.load', number) for number in range(5)], troupe.testing.check_environment)"
    )
    finished = run_code(code, tmp_path)
    assert finished.stdout.startswith(
        "['troupe.load_config(', 'troupe.load_metrics(', 'troupe.load_rollouts(', 'troupe.load_team(', None] <function"
    ), finished.stderr


def test_a_folder_of_the_librarys_name_does_not_hide_it(tmp_path: Path) -> None:
    """Whoever clones into `troupe` has such a folder, in the folder that holds the clone."""
    (tmp_path / "troupe" / "flows").mkdir(parents=True)
    (tmp_path / "flows").mkdir()
    finished = run_code("import troupe; print(troupe.load_config('tiny').preset)", tmp_path)
    assert finished.stdout.strip() == "tiny", finished.stderr


def test_the_examples_of_the_functions_hold() -> None:
    finder = doctest.DocTestFinder(exclude_empty=False)
    names = ("evaluate", "load_config", "load_team", "train")
    examples = [
        test for name in names for test in finder.find(getattr(troupe.running, name), globs=vars(troupe.running))
    ]
    assert all(test.examples for test in examples), "each function shows how it is called"
    runner = doctest.DocTestRunner(verbose=False)
    assert [runner.run(test).failed for test in examples] == [0] * len(names)
    assert runner.tries >= 4, "those that need neither services nor a run are run"


@pytest.mark.parametrize("name", ["tasks.py", "flows.py", "components/__init__.py"])
def test_a_script_beside_a_file_that_hides_a_package_is_told_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("")
    failed = run_code("import troupe\ntroupe.load_config('tiny')", tmp_path)
    assert failed.stderr.splitlines()[-1] == (
        f"ImportError: {tmp_path / name} hides Troupe's package {name.partition('/')[0].removesuffix('.py')!r}: "
        "give it another name"
    )


def test_every_name_that_is_typed_is_found_where_the_types_say() -> None:
    for name, place in troupe._PLACES.items():
        module, _, found = place.partition(":")
        assert getattr(troupe, name) is getattr(importlib.import_module(module), found or name)
    assert set(troupe._PLACES) == set(troupe.__all__)


def test_training_takes_a_name_a_file_or_a_configuration_and_shows_itself_in_a_notebook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert troupe.__version__[0].isdigit()
    trained: list[tuple[str, str, bool]] = []

    def run_training(config: troupe.RunConfig, run_id: str, *, console: Console, on_step: object) -> None:
        trained.append((config.environment.name, run_id, console.quiet))

    monkeypatch.setattr(troupe.running, "run_training", run_training)
    troupe.train("tiny")
    troupe.train(troupe.load_config("tiny"), run_id="second", display=True)
    monkeypatch.setattr(troupe.running, "console", lambda: Console(force_jupyter=True))
    troupe.train("tiny", run_id="cell")
    assert trained == [("plan_path", "tiny", True), ("plan_path", "second", False), ("plan_path", "cell", False)]
    for wrong in ("tinny", tmp_path / "none.yaml", {"num_steps": 1}, None):
        with pytest.raises(troupe.ConfigurationError, match=r"tinny|none|config dict|config NoneType"):
            troupe.train(wrong)  # type: ignore[arg-type]
