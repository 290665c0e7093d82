"""torch's thread count, which belongs to the whole process, and on which sums of floats depend."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def cpu_threads(num_threads: int) -> Iterator[None]:
    """The thread count set for the duration."""
    import torch

    before = torch.get_num_threads()
    if before == num_threads:
        yield
        return
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
