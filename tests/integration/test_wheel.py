"""What the wheel holds is enough: a run, and a new project, from a folder that is no checkout."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.integration.test_examples import SMALL
from tests.test_wheel import build_wheel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, as they lie among the installed packages."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as wheel:
        wheel.extractall(folder / "site-packages")
    return folder / "site-packages"


def run_command(
    installed: Path, cwd: Path, env: dict[str, str], *arguments: str, code: str = "from troupe.cli import main; main()"
) -> subprocess.CompletedProcess[str]:
    """What a command says whose packages are the installed ones."""
    command = [sys.executable, "-P", "-c", code, *arguments]
    paths = {"PYTHONPATH": str(installed)}
    return subprocess.run(command, cwd=cwd, env={**env, **paths}, capture_output=True, text=True, check=False)


def test_a_run_and_a_new_project_need_nothing_but_what_the_wheel_holds(
    installed: Path, client_environment: dict[str, str], tmp_path: Path
) -> None:
    store = f"file://{tmp_path / 'store'}"
    code = (
        f"import json, troupe, components\nstore = {store!r}\n"
        f"report = troupe.train(troupe.load_config('tiny', ['num_steps=1', *{SMALL!r}]), run_id='few', store=store)\n"
        "team = troupe.load_team('few', store=store)\n"
        "played = [team.play(i).problem.environment for i in range(2)]\n"
        "print(json.dumps([components.__file__, dict(report.checkpoint_digest), len(report.evaluations), team.name, played]))\n"
    )
    ran = run_command(installed, tmp_path, client_environment, code=code)
    assert ran.returncode == 0, ran.stderr
    place, digests, num_evaluations, name, played = json.loads(ran.stdout)
    assert Path(place) == installed / "components" / "__init__.py"
    assert (list(digests), num_evaluations, name, played) == (["team"], 4, "few@1", ["plan_path", "plan_path"])
    shown = json.loads(
        run_command(installed, tmp_path, client_environment, "show", "few", "--json", "--store", store).stdout
    )
    assert (shown["state"], shown["steps"][0]["checkpoint_digest"]) == ("completed", digests)

    assert run_command(installed, tmp_path, client_environment, "init", "mine").returncode == 0
    project = tmp_path / "mine"
    make = ["make", "test", f"PYTHON={sys.executable}"]
    env = {**client_environment, "PYTHONPATH": str(installed)}
    tested = subprocess.run(make, cwd=project, env=env, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stderr
    wanted = ("evaluate", "expert", "--suite", "mine", "--problems", "5", "--json")
    report = json.loads(run_command(installed, project, client_environment, *wanted).stdout)
    assert (report["suite"], report["success_rate"]) == ("mine:Mine/test", 1.0)
    assert run_command(installed, tmp_path, client_environment, "init", "clerk", "--agent").returncode == 0
