"""The home folder of the local services, for commands in any folder."""

import os
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.machine.home import ensure_home, ensure_private, resolve_home


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "deep" / "inside").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    return folder


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    folder = tmp_path / "elsewhere" / "below"
    folder.mkdir(parents=True)
    return folder


def test_what_troupe_home_names_comes_first(checkout: Path, elsewhere: Path) -> None:
    (elsewhere / ".troupe").mkdir()
    assert resolve_home(elsewhere, {"TROUPE_HOME": "/data/t"}, checkout=checkout) == Path("/data/t")
    assert resolve_home(elsewhere, {"TROUPE_HOME": "t"}, checkout=checkout) == elsewhere / "t"


def test_a_checkout_keeps_its_data_and_every_folder_finds_it(checkout: Path, elsewhere: Path) -> None:
    for cwd in (checkout, checkout / "deep" / "inside", elsewhere):
        assert resolve_home(cwd, {}, checkout=checkout) == checkout / ".troupe"


def test_the_nearest_home_above_a_folder_is_its_own(checkout: Path, elsewhere: Path) -> None:
    (elsewhere.parent / ".troupe").mkdir()
    assert resolve_home(elsewhere, {}, checkout=checkout) == elsewhere.parent / ".troupe"


def test_an_installed_troupe_has_one_home_a_user(tmp_path: Path, elsewhere: Path) -> None:
    site_packages = tmp_path / "site-packages"
    assert resolve_home(elsewhere, {}, checkout=site_packages) == Path("~/.local/state/troupe").expanduser()
    state = str(tmp_path / "state")
    assert resolve_home(elsewhere, {"XDG_STATE_HOME": state}, checkout=site_packages) == tmp_path / "state" / "troupe"
    assert not (tmp_path / "state").exists(), "looking makes nothing"


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
def test_a_home_that_somebody_else_put_in_the_way_is_passed_over(checkout: Path, elsewhere: Path) -> None:
    planted = elsewhere / ".troupe"
    planted.mkdir()
    os.chown(planted, 65534, 65534)
    assert resolve_home(elsewhere, {}, checkout=checkout) == checkout / ".troupe"


def test_a_private_part_of_a_home_is_closed_under_any_umask(tmp_path: Path) -> None:
    old = tmp_path / "home" / "runs"
    old.mkdir(mode=0o755, parents=True)
    for folder in (old, tmp_path / "home" / "decisions"):
        assert ensure_private(folder).stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("place", ["/proc/x", "a-file/x", "a-file"])
def test_a_home_that_cannot_be_made_is_named_with_the_remedy(place: str, tmp_path: Path) -> None:
    (tmp_path / "a-file").touch()
    with pytest.raises(
        ConfigurationError, match=r"TROUPE_HOME .*(x|a-file): .* set TROUPE_HOME to a folder of your own"
    ):
        ensure_home(tmp_path / place)
