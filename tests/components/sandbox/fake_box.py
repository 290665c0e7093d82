"""A box that runs nothing."""

from collections.abc import Callable, Sequence


class FakeBox:
    """A box that answers from a script: bytes are an answer, an exception is raised; the last one repeats."""

    def __init__(self, answers: Sequence[bytes | Exception], *, on_ask: Callable[[bytes], None] | None = None) -> None:
        self.frames: list[bytes] = []
        self.closed = False
        self._answers = list(answers)
        self._on_ask = on_ask

    def ask(self, frame: bytes, *, timeout_seconds: float) -> bytes:
        self.frames.append(frame)
        if self._on_ask is not None:
            self._on_ask(frame)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.closed = True
