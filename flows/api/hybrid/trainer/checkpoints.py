"""Checkpoints of the documented trainer: one file of arrays with a digest, which appears whole or not at all."""

import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.api.hybrid.core.exceptions import CheckpointError

BEST = "best_model.npz"
_NAME = re.compile(r"checkpoint_episode_(\d+)\.npz")


def checkpoint_name(episode: int) -> str:
    """**Example** "checkpoint_episode_100.npz"."""
    return f"checkpoint_episode_{episode}.npz"


def write_checkpoint(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file. Raises CheckpointError if that is not possible."""
    from components.hybrid.experience import digest_state

    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            np.savez(file, allow_pickle=False, digest=np.array(digest_state(arrays)), **arrays)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise CheckpointError(f"{path} cannot be written: {error}; free space, or choose another save_dir") from error


def read_checkpoint(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file. Raises CheckpointError if there is none, or it is damaged."""
    from components.hybrid.experience import digest_state

    if not path.is_file():
        raise CheckpointError(
            f"{path}: there is no such checkpoint; use one that is listed in its folder, latest or best"
        )
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        digest = str(arrays.pop("digest"))
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise CheckpointError(f"{path} is damaged or no checkpoint ({error}); use another") from error
    if digest_state(arrays) != digest:
        raise CheckpointError(f"{path} is damaged: its digest is not that of its content; use another")
    return arrays


def find_checkpoint(name: str, folder: Path) -> Path:
    """The file of "latest", "best" or a path, which may be one below the folder. Raises CheckpointError without one."""
    if name == "best":
        return folder / BEST
    if name != "latest":
        return Path(name) if Path(name).exists() else folder / name
    found = {int(match[1]): each for each in folder.glob("*.npz") if (match := _NAME.fullmatch(each.name))}
    if not found:
        raise CheckpointError(f"{folder}: there is no checkpoint yet; train with a save_interval that is reached")
    return found[max(found)]
