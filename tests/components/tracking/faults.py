"""A store and a tracker that simulate a kill at a chosen moment."""

from collections.abc import Iterator

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import ArtifactRef
from components.errors import StoreUnavailable
from components.schema import IterationReport
from tests.components.tracking.memory import InMemoryTracker


class Killed(BaseException):
    """Simulates kill -9: the code does not catch it."""


class FaultyStore:
    """Forwards `create`, `read` and `list` to `inner`, and dies after the `dies_after`-th effect."""

    def __init__(self, inner: ArtifactStore) -> None:
        self.inner = inner
        self.dies_after: int | None = None
        self.is_away = False
        self.num_lists = self.num_reads = 0

    def create(self, key: str, content: bytes) -> bool:
        self._answer()
        created = self.inner.create(key, content)
        self._count_down()
        return created

    def read(self, key: str) -> bytes | None:
        self._answer()
        self.num_reads += 1
        return self.inner.read(key)

    def put_bytes(self, content: bytes, *, kind: str) -> ArtifactRef:
        return self.inner.put_bytes(content, kind=kind)

    def get_bytes(self, ref: ArtifactRef) -> bytes:
        self._answer()
        return self.inner.get_bytes(ref)

    def list(self, prefix: str) -> Iterator[str]:
        self._answer()
        self.num_lists += 1
        return self.inner.list(prefix)

    def _answer(self) -> None:
        if self.is_away:
            raise StoreUnavailable("the store is away")

    def _count_down(self) -> None:
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after <= 0:
                self.dies_after = None
                raise Killed


class FaultyTracker(InMemoryTracker):
    """Dies right after the `dies_after`-th publish has arrived."""

    def __init__(self) -> None:
        super().__init__()
        self.dies_after: int | None = None
        self.num_publishes = 0

    def publish_iteration(self, report: IterationReport, *, timestamp_ms: int) -> None:
        super().publish_iteration(report, timestamp_ms=timestamp_ms)
        self.num_publishes += 1
        if self.dies_after is not None:
            self.dies_after -= 1
            if self.dies_after <= 0:
                self.dies_after = None
                raise Killed
