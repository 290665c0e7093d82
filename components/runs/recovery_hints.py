"""Remedies for damaged or missing payloads and full disks, added to errors where the run is known."""

import errno
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from components.artifacts.base import ArtifactStore
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused
from components.runs.initial_checkpoints import read_initial_record
from components.runs.lineages import store_option
from components.runs.run import Run
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of

_PAYLOAD = re.compile(r"payloads/[0-9a-f]{2}/[0-9a-f]{64}|folders/[0-9a-f]{64}")
_FULL = {errno.ENOSPC, errno.EDQUOT}
_FULL_TEXT = "No space left on device"


@contextmanager
def with_recovery_hints(store: ArtifactStore, run: Run, step: int) -> Iterator[None]:
    """Add remedies to the errors of work that reads earlier results and writes to the local disk."""
    try:
        yield
    except (ArtifactCorrupt, ArtifactMissing) as error:
        found = _PAYLOAD.search(str(error))
        if found is None or "`troupe " in str(error):  # errors about records name their remedy
            raise
        raise type(error)(f"{error}; {_remedy(store, run, step, found[0])}") from error
    except StoreRefused:
        raise
    except Exception as error:  # torch, safetensors and workers wrap the system's error
        if not _is_full_disk(error):
            raise
        place = getattr(error, "filename", None) or tempfile.gettempdir()
        raise StoreRefused(
            f"no space left at {place}: free some, or set TMPDIR to a folder with more; what was finished is kept"
        ) from error


def _remedy(store: ArtifactStore, run: Run, step: int, key: str) -> str:
    """The command that recomputes the payload or folder at `key`, an input of a stage of `step`."""
    if manifest := _find_first(store, run, key):
        return f"delete {manifest} in {store.uri}, and `troupe resume {run.run_id}` makes it again"
    for at in (step, step - 1) if step else (step,):
        keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{at:06d}/"))
        if named := [manifest for manifest in keys if key.encode() in (store.read(manifest) or b"")]:
            stage = stage_of(min(named, key=lambda manifest: _finished_at(store, manifest)))
            return f"`troupe resume {run.run_id} --from-stage {stage} --step {at}` computes it again"
    return (
        f"`troupe verify {run.run_id}{store_option(store)}` says what computes it again, or that `troupe gc` removed it"
    )


def _find_first(store: ArtifactStore, run: Run, key: str) -> str | None:
    """The manifest of the policies before training, whose bases later checkpoints name, too, if `key` is a folder of them."""
    try:
        record = read_initial_record(store, run)
    except ArtifactCorrupt:
        return None
    return record.manifest if record is not None and key in {ref.key for ref in record.content} else None


def _finished_at(store: ArtifactStore, manifest: str) -> str:
    """When the stage ended; "" where its manifest is damaged, too: it may have been the first."""
    try:
        return read_manifest_at(store, manifest).finished_at
    except ArtifactCorrupt:
        return ""


def _is_full_disk(error: BaseException) -> bool:
    """Whether the disk is full, even if a library has wrapped the system's error."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in _FULL:
            return True
        found = found.__cause__
    return _FULL_TEXT in str(error)
