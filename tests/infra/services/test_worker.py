"""The worker beside other users' workers."""

import os
import tempfile
from pathlib import Path

import pytest

from infra.services.prefect_server import WorkerService


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
