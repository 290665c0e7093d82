"""Waits for a service end at the time limit or an interruption, and are logged now and then."""

import logging
import threading
import time
from collections.abc import Iterator

import pytest

from components.machine import outages
from components.machine.outages import Outage, interrupt, interruptible, is_interrupted


@pytest.fixture(autouse=True)
def uninterrupted() -> Iterator[None]:
    with interruptible():
        yield
    outages._interrupted.clear()


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_patience_is_counted_from_the_first_failure() -> None:
    clock = Clock()
    outage = Outage("S3", 10.0, clock=clock)
    since = outage.record_failure()
    clock.now += 9.9
    assert outage.record_failure() == since
    assert outage.backoff(0.05, since=since)
    assert not outage.backoff(0.2, since=since)


def test_an_answer_ends_an_outage_and_so_does_a_long_silence() -> None:
    clock = Clock()
    outage = Outage("S3", 10.0, clock=clock)
    outage.record_failure()
    clock.now += 8
    outage.record_success()
    assert outage.record_failure() == 1008.0
    clock.now += 121
    assert outage.record_failure() == 1129.0


def test_lines_come_ever_more_rarely_and_name_what_is_left(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("S3", 600.0, clock=clock)
    with caplog.at_level(logging.WARNING):
        while outage.backoff(0.0, since=outage.record_failure()):
            clock.now += 1
        outage.record_success()
    told = lines(caplog)
    assert told[:4] == [
        "S3 does not answer since 5 s; giving up in 595 s",
        "S3 does not answer since 10 s; giving up in 590 s",
        "S3 does not answer since 20 s; giving up in 580 s",
        "S3 does not answer since 40 s; giving up in 560 s",
    ]
    assert told[-1] == "S3 answers again, after 601 s"
    assert len(told) == 5 + 8 + 1  # at 5, 10, 20, 40, 80 s, each minute from 140 to 560 s, and at the end
    assert all("since" in line for line in told[:-1])


def test_a_short_outage_is_not_worth_a_line(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outage = Outage("S3", 600.0, clock=clock)
    outage.backoff(0.0, since=outage.record_failure())
    clock.now += 4
    outage.record_success()
    assert lines(caplog) == []


def test_an_interruption_ends_the_waits_of_all_threads() -> None:
    outage = Outage("S3", 600.0)
    since, ended = outage.record_failure(), []
    threads = [threading.Thread(target=lambda: ended.append(outage.backoff(300.0, since=since))) for _ in range(3)]
    for thread in threads:
        thread.start()
    started = time.monotonic()
    interrupt()
    for thread in threads:
        thread.join(30)
    assert ended == [False, False, False]
    assert time.monotonic() - started < 30


def test_what_ends_patient_work_without_an_error_is_an_interruption() -> None:
    with pytest.raises(ValueError, match="an error"), interruptible():
        raise ValueError("an error")
    assert not is_interrupted()
    with pytest.raises(KeyboardInterrupt), interruptible():
        raise KeyboardInterrupt
    assert is_interrupted()
    with interruptible():
        assert not is_interrupted()
