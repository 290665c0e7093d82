"""What is freed by `close`, or at the end of a `with` block."""

from abc import ABC, abstractmethod
from typing import Self


class Closeable(ABC):
    """Closed at the end of a `with` block."""

    __slots__ = ()

    @abstractmethod
    def close(self) -> None:
        """Free what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
