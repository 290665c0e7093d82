"""Remedies for damaged or missing payloads and full disks, added to errors where the run is known."""

import errno
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from components.artifacts.base import ArtifactStore
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused
from components.runs.history import has_checkpoint_files, read_history
from components.runs.initial_checkpoints import committed_initial_checkpoints, warm_start_key
from components.runs.run import Run
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of
from components.runs.steps import first_unfinished_step

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
    if key in _first_folders(store, run):
        return f"delete {warm_start_key(run.config)} in {store.uri}, and `troupe resume {run.run_id}` makes it again"
    for at in (step, step - 1) if step else (step,):
        keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/{at:06d}/"))
        if named := [manifest for manifest in keys if key.encode() in (store.read(manifest) or b"")]:
            stage = stage_of(min(named, key=lambda manifest: _finished_at(store, manifest)))
            return f"`troupe resume {run.run_id} --from-stage {stage} --step {at}` computes it again"
    if step == 0:
        return (
            "it is of the policy before training: delete the manifest of warm_start that names it, below "
            f"runs/_shared/ in {store.uri}, and `troupe resume {run.run_id}` makes it again"
        )
    return _removed(store, run, step)


def _first_folders(store: ArtifactStore, run: Run) -> set[str]:
    """The folders of the policies before training and of their bases, which later checkpoints name, too."""
    try:
        first = committed_initial_checkpoints(store, run) or {}
    except ArtifactCorrupt:
        return set()
    return {ref.key for each in first.values() for ref in (each.folder, each.base) if ref is not None}


def _finished_at(store: ArtifactStore, manifest: str) -> str:
    """When the stage ended; "" where its manifest is damaged, too: it may have been the first."""
    try:
        return read_manifest_at(store, manifest).finished_at
    except ArtifactCorrupt:
        return ""


def _removed(store: ArtifactStore, run: Run, step: int) -> str:
    """The nearest kept checkpoints, for the one after `step` updates whose manifest is gone."""
    history = read_history(store, run, first_unfinished_step(store, run))
    left = {shown.step + 1: shown for shown in history.steps}
    below = next((at for at in sorted(left, reverse=True) if at < step and has_checkpoint_files(store, left[at])), 0)
    above = next((at for at in sorted(left) if at > step and has_checkpoint_files(store, left[at])), None)
    nearest = str(below) if above is None else f"{below} and {above}"
    return (
        f"`troupe gc` removed the checkpoint after {step} updates; the nearest that are kept are those after {nearest}, and "
        f"`troupe resume {run.run_id} --from-stage update_policy --step {below}` trains again from there"
    )


def _is_full_disk(error: BaseException) -> bool:
    """Whether the disk is full, even if a library has wrapped the system's error."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, OSError) and found.errno in _FULL:
            return True
        found = found.__cause__
    return _FULL_TEXT in str(error)
