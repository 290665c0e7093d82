"""Work in a thread of its own: what it mounts or gives up ends with it."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


def in_a_thread(work: Callable[[], None]) -> None:
    """Do `work` in a new thread and wait for its end; what it raises is raised here."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(work).result()
