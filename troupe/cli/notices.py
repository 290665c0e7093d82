"""Prints the pipeline's warnings while a command runs, one line each, without repetitions."""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from components.text.escaping import printable, without_passwords

_SAME_AGAIN_SECONDS = 60.0


class Notices(logging.Handler):
    """Prints warnings as `warning: ...` and news as they are, without tracebacks."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._printed_at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Print, unless the same line was printed recently."""
        line = printable(without_passwords(" ".join(record.getMessage().split())), keep="")
        now = time.monotonic()
        if now - self._printed_at.get(line, -_SAME_AGAIN_SECONDS) < _SAME_AGAIN_SECONDS:
            return
        self._printed_at[line] = now
        try:
            # Looked up each time: a live display replaces the stream, to print above itself.
            kind = "" if getattr(record, "is_news", False) else f"{record.levelname.lower()}: "
            print(f"{kind}{line}", file=sys.stderr, flush=True)
        except (OSError, ValueError):
            return


@contextmanager
def notices() -> Iterator[None]:
    """Print the warnings of our own modules inside the block."""
    handler = Notices()
    loggers = [logging.getLogger(name) for name in ("components", "tasks", "flows", "infra", "troupe")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
