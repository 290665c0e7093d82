"""Cleanup of the folders of trainers that were killed together with their workers."""

import os
import shutil
import socket
import stat
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from components.machine.process_ids import ProcessId
from components.training.worker_protocol import HANDOVER_FILE, Handover

FOLDER_PREFIX = "troupe-training-"
_HALF_MADE_SECONDS = 600.0
"""A folder this old without a handover file belongs to a killed process."""


def remove_abandoned_folders() -> None:
    """Remove the folders, and the keys in them, of this user's trainers that are gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        with suppress(OSError, ValueError):
            state = folder.lstat()
            is_ours = stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid()
            if is_ours and _is_abandoned(folder, age_seconds=time.time() - state.st_mtime):
                shutil.rmtree(folder, ignore_errors=True)


def _is_abandoned(folder: Path, *, age_seconds: float) -> bool:
    path = folder / HANDOVER_FILE
    if not path.exists():
        return age_seconds > _HALF_MADE_SECONDS
    handover = Handover.model_validate_json(path.read_bytes())
    is_here = handover.owner_host == socket.gethostname()
    owner = ProcessId.parse(handover.owner)
    return is_here and owner is not None and owner.is_gone()
