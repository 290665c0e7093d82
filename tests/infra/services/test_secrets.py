import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.services.secrets import ensure_secret


def test_a_secret_is_made_once_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "services" / "secret"
    first = ensure_secret(path)
    assert len(first) == 43
    assert ensure_secret(path) == first
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert os.listdir(path.parent) == ["secret"]


def test_all_who_make_a_secret_at_once_get_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(ensure_secret, [tmp_path / "secret"] * 64))
    assert len(found) == 1


def test_a_secret_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    ensure_secret(path)
    path.chmod(0o644)
    with pytest.raises(PermissionError, match="can be read by others"):
        ensure_secret(path)


def test_a_secret_is_never_read_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("chosen by somebody else")
    (tmp_path / "secret").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"):
        ensure_secret(tmp_path / "secret")
