"""Each box has a user number of its own, where this process may choose."""

import os
from pathlib import Path

import pytest

from components.sandbox.users import RANGE, can_choose_users, next_box_uid


def test_numbers_are_in_a_range_of_their_own_and_differ() -> None:
    numbers = [next_box_uid() for _ in range(200)]
    assert len(set(numbers)) == 200
    assert all(number in RANGE for number in numbers)
    assert 65534 not in RANGE
    assert RANGE.stop < 2**31  # Docker daemons take no more


@pytest.mark.parametrize(
    ("uid_map", "expected"),
    [
        ("         0          0 4294967295\n", True),
        ("0 100000 65536\n", False),
        ("0 1000 1\n1 100000 2147483647\n", True),
        (f"{RANGE.start + 1} 0 {len(RANGE)}\n", False),
        ("", False),
    ],
)
def test_only_root_of_all_users_chooses(
    uid_map: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "uid_map").write_text(uid_map)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert can_choose_users(tmp_path / "uid_map") is expected
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert not can_choose_users(tmp_path / "uid_map")
