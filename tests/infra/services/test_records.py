"""The home folder is for its owner alone."""

import os
from pathlib import Path

import pytest

from components.errors import ConfigurationError
from infra.services.records import locked, make_private


def test_a_folder_open_to_all_is_narrowed_and_what_is_in_it_too(tmp_path: Path) -> None:
    home = tmp_path / "home"
    for name in ("prefect", "mlflow", "logs", "services"):
        (home / name).mkdir(mode=0o755, parents=True)
    home.chmod(0o777)
    with locked(home):
        pass
    assert home.stat().st_mode & 0o066 == 0
    assert {path.stat().st_mode & 0o777 for path in home.iterdir()} == {0o700}


def test_root_lets_its_boxes_pass_and_others_nobody(tmp_path: Path) -> None:
    make_private(tmp_path)
    assert tmp_path.stat().st_mode & 0o777 == (0o711 if os.geteuid() == 0 else 0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o777)
    os.chown(tmp_path / "home", 65534, 65534)
    with pytest.raises(ConfigurationError, match="belongs to another user"), locked(tmp_path / "home"):
        pass
