import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from components.machine.child_environment import without_proxy
from infra.services.environment import (
    MlflowAddress,
    PrefectAddress,
    S3Address,
    StackStatus,
    environment,
    exports,
    service_environment,
)
from infra.services.prefect_server import WorkerService
from infra.services.secrets import password_file

HOME = Path("/home/x/.troupe")


def all_up(home: Path) -> StackStatus:
    return StackStatus(
        home=home,
        prefect=PrefectAddress(api_url="http://127.0.0.1:4200/api", ui_url="http://127.0.0.1:4200"),
        mlflow=MlflowAddress(url="http://127.0.0.1:5000"),
        s3=S3Address(endpoint="http://127.0.0.1:8333", bucket="troupe"),
    )


def test_clients_are_told_of_every_service_that_is_up_and_of_the_password(tmp_path: Path) -> None:
    found = environment(all_up(tmp_path))
    password = password_file(tmp_path).read_text()
    assert found["PREFECT_API_AUTH_STRING"] == password
    assert (found["MLFLOW_TRACKING_USERNAME"], found["MLFLOW_TRACKING_PASSWORD"]) == ("troupe", password)
    assert environment(all_up(tmp_path)) == found
    assert found["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    assert found["MLFLOW_TRACKING_URI"] == "http://127.0.0.1:5000"
    assert found["AWS_ENDPOINT_URL_S3"] == "http://127.0.0.1:8333"
    assert found["AWS_SHARED_CREDENTIALS_FILE"] == str(tmp_path / "s3" / "credentials")
    assert found["MLFLOW_DISABLE_TELEMETRY"] == "true"


@pytest.mark.parametrize("wish", [None, "active"])
def test_nothing_is_said_of_services_that_are_down(wish: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if wish is None:
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    else:
        monkeypatch.setenv("OMP_WAIT_POLICY", wish)
    assert environment(StackStatus(home=HOME)) == {
        "OMP_WAIT_POLICY": wish or "passive",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "DO_NOT_TRACK": "1",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "TROUPE_HOME": str(HOME),
    }


def test_a_service_does_not_see_the_users_accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = {
        "AWS_ACCESS_KEY_ID": "mine",
        "AWS_PROFILE": "mine",
        "PREFECT_API_KEY": "mine",
        "PREFECT_API_URL": "https://cloud",
        "MLFLOW_TRACKING_TOKEN": "mine",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name, value in foreign.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    found = service_environment({"OWN": "1"})
    assert {*foreign, "OPENAI_API_KEY"} & found.keys() == set()
    assert (found["LC_ALL"], found["OWN"]) == ("C.UTF-8", "1")


def test_exports_are_quoted_for_a_shell(tmp_path: Path) -> None:
    home = tmp_path / "it's; touch $(pwned) `pwned`"
    script = f'{exports(all_up(home))}\nprintf "%s" "$TROUPE_HOME:$AWS_PROFILE:$PREFECT_API_KEY"'
    env = {"AWS_PROFILE": "mine", "PREFECT_API_KEY": "mine", "PATH": os.defpath}
    done = subprocess.run(["sh", "-c", script], env=env, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{home}::", "")
    assert [path.name for path in tmp_path.iterdir()] == [home.name]


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({}, "127.0.0.1,localhost"),
        ({"no_proxy": "intranet"}, "intranet,127.0.0.1,localhost"),
        ({"NO_PROXY": "127.0.0.1"}, "127.0.0.1,localhost"),
    ],
)
def test_this_machine_is_reached_past_any_proxy(known: dict[str, str], expected: str) -> None:
    assert without_proxy(known) == {"NO_PROXY": expected, "no_proxy": expected}


def test_the_runners_files_lie_where_no_other_user_plants_or_bars_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Where Prefect's runner of any user on this machine would keep its files.
    (tmp_path / "runner_storage").mkdir(mode=0o000)
    folder = Path(WorkerService({}, {}).launch(tmp_path, {}, {}).env["TMPDIR"])
    assert folder.parent == tmp_path
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder.stat().st_uid == os.getuid()
    assert not (folder / "runner_storage").exists()
