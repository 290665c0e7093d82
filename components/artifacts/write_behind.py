"""A store written by a background thread, in order, while the next stage computes."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from components.artifacts import layout
from components.artifacts.base import Agreement, ArtifactStore, StoredObject
from components.artifacts.refs import ArtifactRef
from components.errors import StageOvertaken

Content = bytes | Path

MAX_PENDING_COMMITS = 8
"""About the stages of one step."""
_IDLE_SECONDS = 10.0
"""How long the thread waits for another write before it ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """One pending write, and the objects that it creates."""

    work: Callable[[], object]
    context: Context = field(default_factory=copy_context)
    leaves: Mapping[str, Content]
    is_commit: bool


class WriteBehindStore(ArtifactStore):
    """Writes the payloads and commits of one process to `inner` in order, from a background thread.

    This process reads its own pending writes; others see them once durable. At most `MAX_PENDING_COMMITS` are pending: the
    next one waits. After a crash, `inner` is as if the crash had come a moment earlier, and everything a commit refers to
    exists.

    A failed write stays first in the queue. The next call that commits or waits raises its error and restarts the queue, so
    retrying the stage retries the write. All methods except payloads and `create_later` wait for pending writes.
    """

    def __init__(self, inner: ArtifactStore) -> None:
        self._inner = inner
        self._writes: deque[_Write] = deque()
        self._pending: dict[str, Content] = {}
        self._changed = threading.Condition()
        self._error: BaseException | None = None
        self._is_writing = False

    @property
    def uri(self) -> str:
        """The inner store's."""
        return self._inner.uri

    def check(self) -> None:
        """Delegates to the inner store."""
        self._inner.check()

    def probe(self) -> None:
        """Delegates to the inner store."""
        self._inner.probe()

    def folder_uri(self, ref: ArtifactRef) -> str:
        """The folder's address once written."""
        return self._inner.folder_uri(ref)

    def put_folder(self, folder: Path, listing: layout.Listing | None = None) -> ArtifactRef:
        """Store a folder, whose files must stay in place until written; its reference."""
        listing = layout.list_folder(folder) if listing is None else listing
        ref = layout.folder_ref(listing)
        leaves = {f"{ref.key}/{path}": folder / path for path in listing}
        self._give(lambda: self._inner.put_folder(folder, listing), leaves=leaves)
        return ref

    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists, after pending writes."""
        self.flush()
        return self._inner.create(key, content)

    def create_later(self, key: str, content: bytes, *, agrees: Agreement) -> bool:
        """Queue a commit; True. The next call that waits raises StageOvertaken if a different record exists."""

        def commit() -> None:
            if self._inner.create(key, content):
                return
            found = self._inner.read(key)
            if found != content and (found is None or not agrees(found)):
                raise StageOvertaken(
                    f"{key}: another process works on this run and has committed a different result, which counts"
                )

        self._wait(lambda: sum(write.is_commit for write in self._writes) >= MAX_PENDING_COMMITS)
        self._give(commit, leaves={key: content}, is_commit=True)
        return True

    def after_writes(self, work: Callable[[], object]) -> None:
        """Queue `work`."""
        self._give(work)

    @property
    def durable(self) -> ArtifactStore:
        """The inner store."""
        return self._inner

    def flush(self) -> None:
        """Wait until everything is durable. Raises the error of a failed write, which is then retried."""
        self._wait(lambda: bool(self._writes))

    def close(self, *, timeout_seconds: float | None = None) -> None:
        """Wait for pending writes until one fails, and drop the rest."""
        with self._changed:
            self._changed.wait_for(lambda: not self._writes or self._error is not None, timeout_seconds)
            self._writes.clear()
            self._pending.clear()
            self._error = None

    def read(self, key: str) -> bytes | None:
        """A record's bytes, or None when there is none."""
        content = self._pending.get(key)
        if content is None:
            return self._inner.read(key)
        return content if isinstance(content, bytes) else content.read_bytes()

    def digest(self, key: str) -> tuple[str, int]:
        """The digest and size of an object's bytes, after pending writes."""
        self.flush()
        return self._inner.digest(key)

    def list(self, prefix: str) -> Iterator[str]:
        """The keys under `prefix` in lexical order, including pending ones."""
        with self._changed:
            pending = {key for key in self._pending if key.startswith(prefix)}
        return iter(sorted(pending.union(self._inner.list(prefix))))

    def scan(self, prefix: str) -> Iterator[StoredObject]:
        """The objects under `prefix`, after pending writes."""
        self.flush()
        return self._inner.scan(prefix)

    def delete(self, key: str) -> None:
        """Remove an object, after pending writes."""
        self.flush()
        self._inner.delete(key)

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove objects, after pending writes."""
        self.flush()
        self._inner.delete_all(keys)

    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        """Delegates to the inner store."""
        return self._inner.discard_unfinished(older_than_seconds=older_than_seconds, dry_run=dry_run)

    def _upload(self, key: str, source: Content, sha256: str, num_bytes: int) -> None:
        self._give(lambda: self._inner._upload(key, source, sha256, num_bytes), leaves={key: source})

    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        if key in self._pending:
            self.flush()
        return self._inner._download(key, target)

    def _give(
        self,
        work: Callable[[], object],
        *,
        leaves: Mapping[str, Content] = MappingProxyType({}),
        is_commit: bool = False,
    ) -> None:
        with self._changed:
            self._writes.append(_Write(work=work, leaves=leaves, is_commit=is_commit))
            self._pending.update(leaves)
            self._changed.notify_all()
            self._go_on()

    def _wait(self, is_under_way: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or not is_under_way())
            if self._error is not None:
                error, self._error = self._error, None
                self._go_on()
                raise error

    def _go_on(self) -> None:
        """Start the thread unless it runs or a write has failed."""
        if self._writes and self._error is None and not self._is_writing:
            self._is_writing = True
            threading.Thread(target=self._write_all, name="store", daemon=True).start()

    def _write_all(self) -> None:
        """The thread's loop, until a write fails or none has come for a while."""
        while (write := self._next()) is not None:
            try:
                write.context.run(write.work)
            except BaseException as error:
                self._end_write(write, error)
            else:
                self._end_write(write, None)

    def _next(self) -> _Write | None:
        with self._changed:
            # Starting a thread takes longer than most stages wait for their next write.
            self._changed.wait_for(lambda: self._writes or self._error is not None, _IDLE_SECONDS)
            self._is_writing = bool(self._writes) and self._error is None
            return self._writes[0] if self._is_writing else None

    def _end_write(self, write: _Write, error: BaseException | None) -> None:
        with self._changed:
            if self._writes and self._writes[0] is write:  # unless dropped by `close`
                self._error = error
                if error is None:
                    self._writes.popleft()
                    for key, content in write.leaves.items():
                        if self._pending.get(key) is content:
                            del self._pending[key]
            self._changed.notify_all()
