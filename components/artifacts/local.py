"""The artifact store over a directory: every write is a synced temporary file that is then renamed or linked."""

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from components.artifacts import layout
from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.local_files import PART_PREFIX, store_errors, sync_folder, write_part
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused


class LocalArtifactStore(ArtifactStore):
    """Artifacts below `root`, which is created on the first write. Safe for several processes of one host."""

    def __init__(self, root: Path) -> None:
        self._root = root.expanduser().absolute()

    def __repr__(self) -> str:
        return f"LocalArtifactStore({str(self._root)!r})"

    @property
    def uri(self) -> str:
        return self._root.as_uri()

    def check(self) -> None:
        with store_errors(self._root, use="read"):
            try:
                os.scandir(self._root).close()
            except FileNotFoundError as error:
                raise StoreRefused(f"there is no directory {self._root}") from error

    def probe(self) -> None:
        self._prove(
            place=f"{self._root}:", otherwise="this file system lets a record be created twice; use another directory"
        )

    def folder_uri(self, ref: ArtifactRef) -> str:
        return self._path(ref.key).as_uri()

    def create(self, key: str, content: bytes) -> bool:
        """Write a record unless it exists; the hard link to a complete file makes this atomic."""
        target = self._path(key)
        with store_errors(self._root):
            if target.exists():
                return False
            part, _ = write_part(target, content)
            try:
                os.link(part, target)
            except FileExistsError:
                return False
            finally:
                part.unlink(missing_ok=True)
            sync_folder(target.parent)
            return True

    def read(self, key: str) -> bytes | None:
        with store_errors(self._root / key, use="read"):
            try:
                return self._path(key).read_bytes()
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                return None

    def digest(self, key: str) -> tuple[str, int]:
        path = self._path(key)
        with store_errors(path, use="read"):
            try:
                return layout.file_digest(path)
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
                raise ArtifactMissing(f"{key}: not in {self.uri}") from error

    def list(self, prefix: str) -> Iterator[str]:
        with store_errors(self._root, use="read"):
            return iter(sorted(self._keys(prefix)))

    def scan(self, prefix: str) -> Iterator[StoredObject]:
        for key in self.list(prefix):
            with store_errors(self._root / key, use="read"):
                try:
                    status = self._path(key).stat()
                except FileNotFoundError:
                    continue
            yield StoredObject(key=key, num_bytes=status.st_size, age_seconds=max(0.0, time.time() - status.st_mtime))

    def delete(self, key: str) -> None:
        """Remove an object and the directories that become empty."""
        path = self._path(key)
        with store_errors(self._root):
            path.unlink(missing_ok=True)
        with suppress(OSError):  # a folder that is not empty ends it
            for folder in itertools.takewhile(lambda each: each != self._root, path.parents):
                folder.rmdir()

    def delete_all(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def discard_unfinished(self, *, older_than_seconds: float, dry_run: bool) -> int:
        stale = [
            part
            for part in self._root.rglob(f"{PART_PREFIX}*")
            if part.is_file() and time.time() - part.stat().st_mtime >= older_than_seconds
        ]
        if not dry_run:
            for part in stale:
                part.unlink(missing_ok=True)
        return len(stale)

    def _path(self, key: str) -> Path:
        parts = key.split("/")
        assert all(part not in ("", ".", "..") for part in parts), f"not a store key: {key!r}"
        return self._root.joinpath(*parts)

    def _upload(self, key: str, source: bytes | Path, sha256: str, num_bytes: int) -> None:
        target = self._path(key)
        with store_errors(self._root):
            if layout.file_matches(target, sha256, num_bytes):
                os.utime(target)
                return
            part, found = write_part(target, source)
            try:
                if found != (sha256, num_bytes):
                    raise ArtifactCorrupt(f"{source!r} changed while it was being stored")
                os.replace(part, target)
            finally:
                part.unlink(missing_ok=True)
            sync_folder(target.parent)

    def _download(self, key: str, target: Path) -> tuple[Path, tuple[str, int]]:
        source = self._path(key)
        if not source.is_file():
            raise ArtifactMissing(f"{key}: not in {self.uri}")
        with store_errors(target, use="filled"):
            return write_part(target, source, sync=False)

    def _keys(self, prefix: str) -> Iterator[str]:
        start = self._root / prefix.rpartition("/")[0]
        for folder, _, names in os.walk(start, onerror=_unless_gone):
            for name in names:
                key = (Path(folder) / name).relative_to(self._root).as_posix()
                if key.startswith(prefix) and not name.startswith(PART_PREFIX):
                    yield key


def _unless_gone(error: OSError) -> None:
    """Ignore a folder that was removed meanwhile; a folder that cannot be read is an error."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error
