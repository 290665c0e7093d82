"""Checkpoints of the documented trainer: one file of arrays with a digest, which appears whole or not at all."""

import os
import re
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from os.path import expanduser
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from components.errors import ConfigurationError
from flows.api.hybrid.core.exceptions import CheckpointError

BEST = "best_model.npz"
_NAME = re.compile(r"checkpoint_episode_(\d+)\.npz")


def checkpoint_name(episode: int) -> str:
    """**Example** "checkpoint_episode_100.npz"."""
    return f"checkpoint_episode_{episode}.npz"


def checked_save_dir(save_dir: Any) -> Path:
    """The folder, which is made when it is written to. Raises ConfigurationError where there can be none."""
    if not isinstance(save_dir, str | Path) or not str(save_dir):
        raise ConfigurationError(f"save_dir {save_dir!r}: give the path of a folder")
    folder = Path(expanduser(save_dir))
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ConfigurationError(f"save_dir {save_dir}: {there} is no folder that can be written; use another save_dir")
    return folder


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
        with suppress(OSError):
            part.unlink()
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


def find_checkpoint(name: str | Path, folder: Path) -> Path:
    """The file of "latest", "best" or a path, which may be one below the folder. Raises CheckpointError without one.

    The latest is what was written last, not the highest number: a folder may have those of an earlier training.
    """
    if not isinstance(name, str | Path):
        raise CheckpointError(f"checkpoint_path {name!r}: give a path, latest or best")
    if name == "best":
        return folder / BEST
    if name != "latest":
        path = Path(expanduser(name))
        return path if path.exists() else folder / path
    found = {each: int(match[1]) for each in folder.glob("*.npz") if (match := _NAME.fullmatch(each.name))}
    if not found:
        raise CheckpointError(f"{folder}: there is no checkpoint yet; train with a save_interval that is reached")
    return max(found, key=lambda each: (each.stat().st_mtime_ns, found[each]))
