import signal
from collections.abc import Iterator
from contextlib import contextmanager

from flows.runners import own_signals


def test_a_run_ends_by_its_own_handler_though_ray_takes_the_signal() -> None:
    def end(number: int, frame: object) -> None: ...

    @contextmanager
    def connect() -> Iterator[None]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        yield

    before = signal.signal(signal.SIGTERM, end)
    try:
        with own_signals(connect()):
            assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)
