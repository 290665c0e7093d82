"""What files held when a process first read them, and which of them have changed since."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_State = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FileContents:
    """The contents of files at one time."""

    digest: str
    """16 hex digits of names and contents; where the files lie does not count."""
    seen: Mapping[Path, tuple[_State, str]]
    """File -> its size and modification time, and the SHA-256 of its content."""

    def find_changed(self) -> Path | None:
        """The first file that now has another content, or is gone. Only a file with another size or time is read."""
        return next((path for path, seen in self.seen.items() if _differs(path, *seen)), None)


def read_contents(files: Mapping[str, Path]) -> FileContents:
    """The contents of files by name. Raises OSError."""
    seen = {path: (_read_state(path), _digest(path)) for path in files.values()}
    lines = "".join(f"{name}\0{seen[path][1]}\n" for name, path in sorted(files.items()))
    return FileContents(hashlib.sha256(lines.encode()).hexdigest()[:16], seen)


def _differs(path: Path, state: _State, digest: str) -> bool:
    try:
        return _read_state(path) != state and _digest(path) != digest
    except OSError:
        return True


def _read_state(path: Path) -> _State:
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
