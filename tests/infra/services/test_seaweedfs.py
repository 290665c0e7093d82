"""What SeaweedFS is started with, without starting it; a real one is in test_stack.py."""

import os
import shutil
import socket
import tomllib
from pathlib import Path

import pytest

from components.errors import ServiceMissing
from infra.services.environment import service_environment
from infra.services.seaweed_security import write_security
from infra.services.seaweedfs import SeaweedService, sockets_of
from tests.other_users import STRANGER, needs_another_user

SECTIONS = {
    "grpc": {"ca"},
    **{f"grpc.{name}": {"cert", "key"} for name in ("volume", "master", "filer", "s3", "client")},
    **{f"https.{name}": {"cert", "key", "ca"} for name in ("volume", "master", "filer")},
    "https.client": {"cert", "key", "ca", "enabled"},
}


@pytest.fixture
def ports() -> dict[str, int]:
    """Ports that nobody has: each is a name below /tmp."""
    return {name: 10_000_000 + os.getpid() * 10 + number for number, name in enumerate(SeaweedService.ports)}


def settings_of(folder: Path) -> dict[str, str]:
    """ "section.key" -> value of the file that the server reads."""
    found: dict[str, str] = {}

    def walk(prefix: str, table: dict[str, object]) -> None:
        for name, value in table.items():
            if isinstance(value, dict):
                walk(f"{prefix}{name}.", value)
            else:
                found[prefix + name] = str(value)

    walk("", tomllib.loads((folder / "security.toml").read_text()))
    return found


@pytest.mark.parametrize("name", ["plain", 'qu"ote', "back\\slash", "umläut \U0001f600", "new\nline", "del\x7f"])
def test_every_port_has_a_certificate_whatever_its_folder_is_called(name: str, tmp_path: Path) -> None:
    own = write_security(tmp_path / name)
    settings = settings_of(own)
    paths = {"cert": own / "certificate.pem", "ca": own / "certificate.pem", "key": own / "key.pem"}
    for section, keys in SECTIONS.items():
        for key in keys:
            assert settings[f"{section}.{key}"] == (str(paths[key]) if key in paths else "True")
    tokens = {value for setting, value in settings.items() if setting.startswith("jwt.") and setting.endswith(".key")}
    assert {len(token) for token in tokens} == {43}
    assert len(tokens) == 4


def test_keys_stay_the_same_and_move_with_their_folder(tmp_path: Path) -> None:
    first = write_security(tmp_path / "old")
    before = {path.name: path.read_bytes() for path in first.iterdir() if path.name != "security.toml"}
    shutil.move(tmp_path / "old", tmp_path / "new")
    moved = write_security(tmp_path / "new")
    assert {path.name: path.read_bytes() for path in moved.iterdir() if path.name != "security.toml"} == before
    assert str(tmp_path / "old") not in (moved / "security.toml").read_text()
    assert {path.stat().st_mode & 0o777 for path in moved.iterdir()} == {0o600}


def test_settings_of_the_users_own_seaweedfs_do_not_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEED_JWT_SIGNING_KEY", "")
    assert [name for name in service_environment({}) if name.startswith("WEED_")] == []


@pytest.mark.parametrize("kind", ["file", "link", pytest.param("socket", marks=needs_another_user)])
def test_what_is_planted_at_a_sockets_name_is_named_and_left_alone(
    kind: str, ports: dict[str, int], tmp_path: Path
) -> None:
    path = sockets_of(ports)[-1]
    try:
        if kind == "file":
            path.touch()
        elif kind == "link":
            path.symlink_to(tmp_path)
        else:
            with socket.socket(socket.AF_UNIX) as theirs:
                theirs.bind(str(path))
            os.chown(path, STRANGER, STRANGER)
        with pytest.raises(ServiceMissing, match=rf"{path} is not a socket of this user.*remove services/s3.json"):
            SeaweedService().launch(tmp_path, ports, {})
        SeaweedService.clean(ports)
        assert os.path.lexists(path)
    finally:
        path.unlink()


def test_own_sockets_that_a_killed_server_left_are_no_hindrance_and_go(ports: dict[str, int], tmp_path: Path) -> None:
    for path in sockets_of(ports):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(path))
    SeaweedService().launch(tmp_path, ports, {})
    SeaweedService.clean(ports)
    assert [path for path in sockets_of(ports) if os.path.lexists(path)] == []
