"""Shares of work in parts, and that a bar moves inside a block of problems."""

import threading

import pytest

from components.reporting import progress_share
from components.reporting.progress_share import report_share, share_listener, subtask


@pytest.fixture(autouse=True)
def each_share_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_share, "_EVERY_SECONDS", 0.0)


def test_parts_of_parts_add_up() -> None:
    heard: list[float] = []
    with share_listener(heard.append):
        for part in range(2):
            with subtask(part / 2, (part + 1) / 2):
                report_share(0.5)
                with subtask(0.5, 1.0):
                    report_share(1.0)
        report_share(0.3)
    report_share(1.0)
    assert heard == [0.25, 0.5, 0.75, 1.0], "never less than before, and nothing outside"


def test_a_listener_hears_its_own_thread_alone() -> None:
    heard: list[float] = []
    with share_listener(heard.append):
        other = threading.Thread(target=report_share, args=(0.9,))
        other.start()
        other.join()
        assert not heard
