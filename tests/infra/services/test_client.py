"""The file by which plain `prefect` commands find the local server."""

import stat
import tomllib
from pathlib import Path

import pytest

from infra.services.client import PREFECT_TOML, remove_prefect_toml, write_prefect_toml
from infra.services.environment import PrefectAddress, StackStatus
from infra.services.process import make_private
from infra.services.secrets import password_file


@pytest.fixture
def state(tmp_path: Path) -> StackStatus:
    home = tmp_path / "home"
    make_private(home)
    return StackStatus(home=home, prefect=PrefectAddress(api_url="http://127.0.0.1:4200/api", ui_url="http://x"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_it_holds_address_and_password_for_its_owner_alone(state: StackStatus, project: Path) -> None:
    for _ in range(2):
        assert write_prefect_toml(project, state) is None
        path = project / PREFECT_TOML
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        password = password_file(state.home).read_text()
        assert tomllib.loads(path.read_text()) == {"api": {"url": "http://127.0.0.1:4200/api", "auth_string": password}}
        assert [entry.name for entry in project.iterdir()] == [PREFECT_TOML]


def test_down_removes_it_from_wherever_it_was_written(state: StackStatus, project: Path) -> None:
    write_prefect_toml(project, state)
    remove_prefect_toml(state.home)
    assert list(project.iterdir()) == []
    remove_prefect_toml(state.home)


def test_up_in_another_folder_moves_it(state: StackStatus, project: Path, tmp_path: Path) -> None:
    write_prefect_toml(project, state)
    write_prefect_toml(tmp_path, state)
    assert not (project / PREFECT_TOML).exists()
    remove_prefect_toml(state.home)
    assert not (tmp_path / PREFECT_TOML).exists()


@pytest.mark.parametrize("own", ["", '[api]\nurl = "https://cloud"\n', "\xff not even text"])
def test_the_users_own_file_stays_and_he_is_told_what_to_add(state: StackStatus, project: Path, own: str) -> None:
    path = project / PREFECT_TOML
    path.write_bytes(own.encode("latin-1"))
    told = write_prefect_toml(project, state)
    assert told is not None
    assert '"http://127.0.0.1:4200/api"' in told
    assert str(password_file(state.home)) in told
    remove_prefect_toml(state.home)
    assert path.read_bytes() == own.encode("latin-1")


def test_a_file_that_the_user_put_in_its_place_survives_down(state: StackStatus, project: Path) -> None:
    write_prefect_toml(project, state)
    (project / PREFECT_TOML).write_text("[server]\n")
    remove_prefect_toml(state.home)
    assert (project / PREFECT_TOML).read_text() == "[server]\n"


def test_a_link_in_its_place_is_not_followed(state: StackStatus, project: Path, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    (project / PREFECT_TOML).symlink_to(target)
    write_prefect_toml(project, state)
    assert not target.exists()
    target.write_text("precious")
    (project / PREFECT_TOML).unlink(missing_ok=True)
    (project / PREFECT_TOML).symlink_to(target)
    assert write_prefect_toml(project, state) is not None
    assert target.read_text() == "precious"


def test_without_a_server_there_is_no_file(project: Path, tmp_path: Path) -> None:
    assert write_prefect_toml(project, StackStatus(home=tmp_path)) is None
    assert list(project.iterdir()) == []
