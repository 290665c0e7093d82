"""What the wheel holds is enough: a run, and a new project, from a folder that is no checkout."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.test_examples import SMALL
from tests.test_wheel import built_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, as they lie among the installed packages."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(built_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        wheel.extractall(folder / "site-packages")
    return folder / "site-packages"


def told(
    installed: Path, cwd: Path, env: dict[str, str], *arguments: str, code: str = "from flows.cli import main; main()"
) -> subprocess.CompletedProcess[str]:
    """What a command says whose packages are the installed ones."""
    command = [sys.executable, "-P", "-c", code, *arguments]
    paths = {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=cwd, env={**env, **paths}, capture_output=True, text=True, check=False)


def test_a_preset_and_a_new_project_are_trained_by_what_the_wheel_holds(
    installed: Path, client_environment: dict[str, str], tmp_path: Path
) -> None:
    store = f"file://{tmp_path / 'store'}"
    few = [word for each in SMALL for word in ("--set", each)]
    trained = told(installed, tmp_path, client_environment, "train", "tiny", "--steps", "1", "--store", store, *few)
    assert trained.returncode == 0, trained.stderr

    assert told(installed, tmp_path, client_environment, "init", "mine").returncode == 0
    make = ["make", "test", f"PYTHON={sys.executable}"]
    env = {**client_environment, "PYTHONPATH": str(installed)}
    tested = subprocess.run(make, cwd=tmp_path / "mine", env=env, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
    code = (
        f"import sys, json, troupe, components\nstore = {store!r}\n"
        f"report = troupe.train(troupe.load_config('mine', ['num_steps=1', *{SMALL!r}]), store=store)\n"
        "team = troupe.load_team('mine', store=store)\n"
        "found = troupe.evaluate('mine', num_problems=3, store=store)\n"
        "print(json.dumps([components.__file__, report.checkpoint_digest, len(report.evaluations), team.name, found.n]))\n"
    )
    ran = told(installed, tmp_path / "mine", client_environment, code=code)
    assert ran.returncode == 0, ran.stderr
    place, digests, num_evaluations, name, n = json.loads(ran.stdout)
    assert Path(place) == installed / "components" / "__init__.py"
    assert (list(digests), num_evaluations, name, n) == (["team"], 4, "mine@1", 3)
    shown = json.loads(told(installed, tmp_path, client_environment, "show", "mine", "--json", "--store", store).stdout)
    assert (shown["state"], shown["steps"][0]["checkpoint_digest"]) == ("completed", digests)
