"""Threads of one process do not change each other's sums."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

from components.machine.torch_state import computing_with


def test_equal_counts_compute_side_by_side_and_another_waits() -> None:
    before, both_in, seen = torch.get_num_threads(), threading.Barrier(2, timeout=20), []

    def one() -> None:
        with computing_with(1):
            both_in.wait()
            seen.append(1)

    def other() -> None:
        with computing_with(2):
            seen.append(torch.get_num_threads())

    with ThreadPoolExecutor(3) as threads:
        with computing_with(1):
            waiting = threads.submit(other)
            beside = [threads.submit(one), threads.submit(one)]
            for each in beside:
                each.result(20)
            assert not waiting.done()
        waiting.result(20)
    assert seen == [1, 1, 2]
    assert torch.get_num_threads() == before


def test_a_thread_does_not_wait_for_itself() -> None:
    with computing_with(1), computing_with(2), computing_with(1):
        assert torch.get_num_threads() == 1
