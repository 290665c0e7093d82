"""Long-lived objects are hidden from the collector; later ones are not."""

import gc
import subprocess
import sys
import weakref

import pytest

from components.machine.gc_tuning import gc_paused, gc_relaxed


class Node:
    """An object that can refer to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_the_collector_rests_inside_and_works_again_after() -> None:
    assert gc.isenabled()
    with gc_paused():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_was_there_is_left_out_and_new_garbage_is_collected() -> None:
    num_frozen = gc.get_freeze_count()
    with gc_paused():
        kept = [Node() for _ in range(100)]
    assert gc.get_freeze_count() >= num_frozen + len(kept)
    garbage = weakref.ref(Node())
    gc.collect()
    assert garbage() is None


def test_an_import_that_fails_wakes_the_collector_too() -> None:
    with pytest.raises(ImportError), gc_paused():
        raise ImportError
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with gc_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_long_work_searches_only_new_objects_and_leaves_the_collector_as_it_was() -> None:
    thresholds = gc.get_threshold()
    dead = weakref.ref(Node())
    kept = [Node() for _ in range(100)]
    with gc_relaxed():
        assert dead() is None, "garbage from before is not kept for the length of the work"
        assert gc.get_freeze_count() >= len(kept)
        assert gc.get_threshold()[0] > thresholds[0]
        garbage = weakref.ref(Node())
        gc.collect()
        assert garbage() is None
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0


def test_work_that_fails_leaves_the_collector_as_it_was() -> None:
    thresholds = gc.get_threshold()
    with pytest.raises(ZeroDivisionError), gc_relaxed():
        raise ZeroDivisionError
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def test_two_that_overlap_leave_the_collector_as_it_was() -> None:
    thresholds = gc.get_threshold()
    one, other = gc_relaxed(), gc_relaxed()
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    other.__exit__(None, None, None)
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def test_garbage_is_found_by_one_thread_alone() -> None:
    program = """
import gc, threading, time
from components.machine.gc_tuning import collect_garbage_in_a_thread

finders = []

class Cycle:
    def __init__(self):
        self.itself = self
    def __del__(self):
        finders.append(threading.current_thread().name)

collect_garbage_in_a_thread(every_seconds=0.05)
end = time.monotonic() + 60
while not finders and time.monotonic() < end:
    for _ in range(5_000):
        Cycle()
print(len(finders) > 0, set(finders))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.strip() == "True {'garbage collector'}"
