"""A watch over replicas that owe an answer: one that hangs is given up long before its requests time out."""

import threading
from types import TracebackType

from components.errors import TroupeError
from components.generation.vllm.router import Replicas
from components.generation.vllm.transport import Transport


class HealthWatch:
    """While it is entered, asks the busy replicas for their health. The requests at one that fails are sent elsewhere."""

    def __init__(
        self, replicas: Replicas, transport: Transport, *, every_seconds: float = 2.0, timeout_seconds: float
    ) -> None:
        self._replicas = replicas
        self._transport = transport
        self._every_seconds = every_seconds
        self._timeout_seconds = timeout_seconds
        self._over = threading.Event()

    def __enter__(self) -> "HealthWatch":
        # Not joined: it may wait for a replica that hangs, and ends by itself.
        threading.Thread(target=self._watch, name="vllm-health", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(self._every_seconds):
            for url in self._replicas.busy:
                self.check(url)

    def check(self, url: str) -> None:
        """Give `url` up when it does not answer."""
        try:
            self._transport.call(url, "/health", timeout_seconds=self._timeout_seconds)
        except TroupeError as error:
            self._replicas.set_down(url, f"not healthy: {error}")
            self._transport.abandon(url)
