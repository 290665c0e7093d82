"""Remedies for damaged or missing payloads and full disks, added to errors where the run is known."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from components.artifacts.base import ArtifactStore
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused
from components.runs.lineages import store_option

_FULL = {errno.ENOSPC, errno.EDQUOT}
_FULL_TEXT = "No space left on device"


@contextmanager
def with_recovery_hints(store: ArtifactStore, run_id: str) -> Iterator[None]:
    """Add remedies to the errors of work that reads earlier results and writes to the local disk."""
    try:
        yield
    except (ArtifactCorrupt, ArtifactMissing) as error:
        if "; " in str(error):  # it names its remedy
            raise
        healed = (
            f"`troupe verify {run_id}{store_option(store)}` says what makes it again, or that `troupe gc` removed it"
        )
        raise type(error)(f"{error}; {healed}") from error
    except StoreRefused:
        raise
    except Exception as error:  # torch, safetensors and workers wrap the system's error
        if not _is_full_disk(error):
            raise
        place = getattr(error, "filename", None) or tempfile.gettempdir()
        raise StoreRefused(
            f"no space left at {place}: free some, or set TMPDIR to a folder with more; what was finished is kept"
        ) from error


def _is_full_disk(error: BaseException) -> bool:
    """Whether the disk is full, even if a library has wrapped the system's error."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in _FULL:
            return True
        found = found.__cause__
    return _FULL_TEXT in str(error)
