"""The pool over fake boxes: who serves, who is thrown away, and what a job hears when boxes fail."""

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError, SandboxUnavailable, ServiceMissing
from components.sandbox.base import SandboxDescription
from components.sandbox.box import Box, BoxGone, BoxOutOfMemory, BoxTimeout
from components.sandbox.pool import MAX_USES, BoxPool
from components.sandbox.protocol import LENGTH, MAX_ANSWER_BYTES
from components.schema import Limits
from tests.components.sandbox.answers import answer
from tests.components.sandbox.fake_box import FakeBox

WELL = answer(b"well")


class Factory:
    """Makes fake boxes from scripts, in turn; the last script repeats. An exception instead of a script is raised."""

    def __init__(self, *scripts: list[bytes | Exception] | Exception, on_ask: Callable[[bytes], None] | None = None):
        self.boxes: list[FakeBox] = []
        self._scripts = list(scripts)
        self._on_ask = on_ask
        self._lock = threading.Lock()

    def __call__(self) -> Box:
        with self._lock:
            script = self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0]
            if isinstance(script, Exception):
                raise script
            self.boxes.append(FakeBox(script, on_ask=self._on_ask))
            return self.boxes[-1]

    @property
    def used(self) -> list[FakeBox]:
        return [box for box in self.boxes if box.frames]


@contextmanager
def pool_over(
    factory: Callable[[], Box], *, num_boxes: int = 1, start_timeout_seconds: float = 5.0
) -> Iterator[BoxPool]:
    description = SandboxDescription(backend="docker", image_digest="d", num_boxes=num_boxes, box_limits={})
    pool = BoxPool(factory, description=description, start_timeout_seconds=start_timeout_seconds)
    try:
        yield pool
    finally:
        pool.close()


def until(condition: Callable[[], bool], *, seconds: float = 5.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_one_box_serves_as_long_as_it_is_clean() -> None:
    factory = Factory([WELL])
    with pool_over(factory, num_boxes=4) as pool:
        until(lambda: len(factory.boxes) == 4)
        assert [pool.run("p").stdout for _ in range(20)] == ["well"] * 20
        assert len(factory.used) == 1
        assert pool.num_replaced == 0
    assert all(box.closed for box in factory.boxes)


def test_a_box_is_replaced_after_so_many_uses() -> None:
    factory = Factory([WELL])
    with pool_over(factory) as pool:
        for _ in range(MAX_USES + 1):
            pool.run("p")
        assert [len(box.frames) for box in factory.boxes] == [MAX_USES, 1]
        until(lambda: factory.boxes[0].closed)


@pytest.mark.parametrize(
    "last",
    [
        answer(clean=False),
        answer(num_stragglers=1),
        answer(cut="wall", exit_code=-9),
        answer(cut="output", exit_code=-9),
        answer(cpu_seconds=60.0),
        answer(exit_code=1, out_of_memory=True),
    ],
)
def test_a_box_is_thrown_away_on_any_doubt_and_its_answer_is_kept(last: bytes) -> None:
    factory = Factory([last], [WELL])
    with pool_over(factory) as pool:
        assert pool.run("p").status != "sandbox_error"
        assert pool.run("p").stdout == "well"
        assert pool.num_replaced == 1
        until(lambda: factory.boxes[0].closed)
        assert [len(box.frames) for box in factory.boxes] == [1, 1]


@pytest.mark.parametrize("failure", [BoxGone("ended"), b"garbage", b"", answer(exit_code=1000)])
def test_a_job_that_lost_its_box_is_run_once_more_in_a_new_one(failure: bytes | Exception) -> None:
    factory = Factory([WELL, WELL, failure], [WELL])
    with pool_over(factory, num_boxes=1) as pool:
        assert [pool.run("p").stdout for _ in range(3)] == ["well"] * 3
        assert [len(box.frames) for box in factory.boxes] == [3, 1]
        assert factory.boxes[0].frames[-1] == factory.boxes[1].frames[0]


def test_the_second_box_of_a_job_has_served_nobody() -> None:
    together, numbers = threading.Barrier(3), itertools.count()

    def meet(frame: bytes) -> None:
        if next(numbers) < 3:
            together.wait(5)

    factory = Factory([BoxGone("ended")], [WELL], on_ask=meet)
    with pool_over(factory, num_boxes=3) as pool:
        until(lambda: len(factory.boxes) == 3)
        with ThreadPoolExecutor(3) as threads:
            assert [each.stdout for each in threads.map(lambda _: pool.run("p"), range(3))] == ["well"] * 3
        retried = [box for box in factory.boxes[3:] if box.frames]
        assert [len(box.frames) for box in retried] == [1]


def test_a_job_that_lost_two_boxes_is_a_sandbox_error() -> None:
    factory = Factory([BoxGone("first")], [BoxGone("second")], [WELL])
    with pool_over(factory) as pool:
        result = pool.run("p")
        assert (result.status, result.exit_code, result.stdout) == ("sandbox_error", None, "")
        assert "first" in result.detail
        assert "second" in result.detail
        assert pool.run("p").stdout == "well"


def test_a_job_that_used_up_the_memory_of_its_box_has_that_as_its_result() -> None:
    factory = Factory([BoxOutOfMemory("the kernel ended it")], [WELL])
    with pool_over(factory) as pool:
        result = pool.run("x")
        assert (result.status, result.exit_code) == ("memory", None)
        assert "the kernel ended it" in result.detail
        assert len(factory.used) == 1
        assert pool.run("y").stdout == "well"
        assert pool.num_replaced == 1


def test_a_job_that_silences_a_box_is_not_given_another() -> None:
    factory = Factory([BoxTimeout("no answer within 11 s")], [WELL])
    with pool_over(factory) as pool:
        result = pool.run("p")
        assert (result.status, result.detail) == ("sandbox_error", "a box failed at it: no answer within 11 s")
        assert [len(box.frames) for box in factory.used] == [1]
        assert pool.run("p").stdout == "well"
        assert pool.num_replaced == 1


@given(payload=st.binary(max_size=100) | st.just(LENGTH.pack(MAX_ANSWER_BYTES + 1)))
@settings(max_examples=30, deadline=None)
def test_a_box_that_lies_is_a_sandbox_error_and_nothing_else(payload: bytes) -> None:
    with pool_over(Factory([payload])) as pool:
        assert pool.run("p").status == "sandbox_error"


def test_a_job_never_waits_for_a_new_box_while_another_is_idle() -> None:
    may_start, both = threading.Semaphore(2), threading.Barrier(2)

    class Slow(Factory):
        def __call__(self) -> Box:
            may_start.acquire()
            return super().__call__()

    def on_ask(frame: bytes) -> None:
        if b"both" in frame:
            both.wait(5)

    factory = Slow([answer(clean=False)], [WELL], on_ask=on_ask)
    with pool_over(factory, num_boxes=2) as pool, ThreadPoolExecutor(2) as threads:
        list(threads.map(pool.run, ["both", "both"]))
        assert pool.num_replaced == 1
        assert [pool.run("p").stdout for _ in range(10)] == ["well"] * 10
        assert len(factory.boxes) == 2
        may_start.release(9)


def test_no_more_jobs_run_at_once_than_there_are_boxes_and_each_box_runs_one() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def on_ask(frame: bytes) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.005)
        with lock:
            running[0] -= 1

    factory = Factory([WELL], on_ask=on_ask)
    with pool_over(factory, num_boxes=3) as pool, ThreadPoolExecutor(12) as threads:
        until(lambda: len(factory.boxes) == 3)
        results = list(threads.map(lambda i: pool.run(f"p{i}"), range(120)))
    assert {result.stdout for result in results} == {"well"}
    assert most[0] == 3
    assert sum(len(box.frames) for box in factory.boxes) == 120


def test_many_threads_with_failing_boxes_all_hear_an_answer() -> None:
    factory = Factory(*[[WELL] * 3 + [BoxGone("ended")] for _ in range(200)])
    with pool_over(factory, num_boxes=3) as pool, ThreadPoolExecutor(8) as threads:
        statuses = [result.status for result in threads.map(lambda i: pool.run(f"p{i}"), range(200))]
    # A new box answers three times before it fails, so no job loses two.
    assert statuses == ["ok"] * 200
    assert pool.num_replaced > 30


def test_boxes_that_fail_to_start_are_tried_again() -> None:
    factory = Factory(OSError("no"), OSError("still no"), [WELL])
    with pool_over(factory) as pool:
        assert pool.run("p").stdout == "well"


def test_when_no_box_can_be_had_in_time_the_cause_is_told() -> None:
    cause = OSError("the daemon is on fire")
    with pool_over(Factory(cause), num_boxes=2, start_timeout_seconds=0.3) as pool:
        with pytest.raises(SandboxUnavailable, match=r"0\.3 s: the daemon is on fire") as caught:
            pool.run("p")
        assert caught.value.__cause__ is cause
        with pytest.raises(SandboxUnavailable):
            pool.wait_ready()


def test_nobody_waits_for_what_will_not_come() -> None:
    with pool_over(Factory(ServiceMissing("install it")), start_timeout_seconds=60.0) as pool:
        started = time.monotonic()
        with pytest.raises(ServiceMissing, match="install it"):
            pool.wait_ready()
        assert time.monotonic() - started < 5.0


def test_nobody_makes_boxes_that_nobody_waits_for() -> None:
    attempts = []

    def make() -> Box:
        attempts.append(time.monotonic())
        raise OSError("no")

    with pool_over(make, start_timeout_seconds=0.1) as pool:
        with pytest.raises(SandboxUnavailable):
            pool.run("p")
        time.sleep(0.4)
        so_far = len(attempts)
        time.sleep(0.6)
        assert len(attempts) == so_far


def test_waiting_for_busy_boxes_is_no_failure() -> None:
    factory = Factory([WELL], on_ask=lambda frame: time.sleep(0.5))
    with pool_over(factory, start_timeout_seconds=0.2) as pool, ThreadPoolExecutor(3) as threads:
        assert [result.stdout for result in threads.map(pool.run, "abc")] == ["well"] * 3


def test_a_closed_pool_runs_nothing() -> None:
    factory = Factory([WELL])
    with pool_over(factory) as pool:
        pool.run("p")
        pool.close()
        pool.close()
        with pytest.raises(SandboxUnavailable, match="closed"):
            pool.run("p")


def test_closing_wakes_those_who_wait_for_a_box() -> None:
    def make() -> Box:
        raise OSError("no")

    with pool_over(make, start_timeout_seconds=60.0) as pool, ThreadPoolExecutor(2) as threads:
        waiting = threads.submit(pool.run, "p")
        until(lambda: pool._num_waiting == 1)
        pool.close()
        with pytest.raises(SandboxUnavailable, match="closed"):
            waiting.result(timeout=5)


def test_a_job_that_no_box_can_serve_takes_none() -> None:
    factory = Factory([WELL])
    with pool_over(factory) as pool:
        with pytest.raises(ConfigurationError):
            pool.run("p", limits=Limits(wall_seconds=-1))
        with pytest.raises(ConfigurationError):
            pool.run("p", files={"a/b": ""})
        assert not factory.used
