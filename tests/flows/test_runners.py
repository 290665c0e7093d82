import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from components.errors import ServiceMissing
from flows.runners import join_cluster


def test_a_run_ends_by_its_own_handler_though_ray_takes_the_signal() -> None:
    def end(number: int, frame: object) -> None: ...

    @contextmanager
    def connect() -> Iterator[None]:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        yield

    before = signal.signal(signal.SIGTERM, end)
    try:
        with join_cluster(connect(), ()):
            assert signal.getsignal(signal.SIGTERM) is end
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_ray_refuses_is_told_in_one_line_and_what_happens_inside_is_left_alone() -> None:
    @contextmanager
    def connect(error: Exception | None) -> Iterator[None]:
        if error is not None:
            raise error
        yield

    with (
        pytest.raises(ServiceMissing, match="does not let this process in: wrong token; look at `ray status`"),
        join_cluster(connect(RuntimeError("wrong token")), (RuntimeError,)),
    ):
        pass
    with pytest.raises(RuntimeError, match="inside"), join_cluster(connect(None), (RuntimeError,)):
        raise RuntimeError("inside")
