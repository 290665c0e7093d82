"""Shares of work in parts, and that a bar moves inside a block of problems."""

import threading

import pytest

from components.reporting import share_done
from components.reporting.share_done import part_of_work, share_listener, tell_share


@pytest.fixture(autouse=True)
def each_share_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_done, "_EVERY_SECONDS", 0.0)


def test_parts_of_parts_add_up() -> None:
    heard: list[float] = []
    with share_listener(heard.append):
        for part in range(2):
            with part_of_work(part / 2, (part + 1) / 2):
                tell_share(0.5)
                with part_of_work(0.5, 1.0):
                    tell_share(1.0)
        tell_share(0.3)
    tell_share(1.0)
    assert heard == [0.25, 0.5, 0.75, 1.0], "never less than before, and nothing outside"


def test_a_listener_hears_its_own_thread_alone() -> None:
    heard: list[float] = []
    with share_listener(heard.append):
        other = threading.Thread(target=tell_share, args=(0.9,))
        other.start()
        other.join()
        assert not heard
