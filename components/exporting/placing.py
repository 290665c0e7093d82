"""A folder that is there whole or not at all: it is filled beside its place, and then renamed."""

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import ConfigurationError, StoreRefused

WHOLE = "whole"
"""Inside a folder that is being filled: what takes its place."""
_LONGEST_NAME_PART = 100
_RIVAL = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


def checked_place(text: str, *, argument: str) -> Path:
    """The folder that `text` names, where nothing is yet. Raises ConfigurationError, which names the argument."""
    if "://" in text:
        raise ConfigurationError(
            f"{argument} {text!r}: name a folder of this machine; upload what is in it with the tools of that place"
        )
    try:
        place = Path(text).resolve()
        if place.is_dir():
            _check_empty(place, text, argument)
        elif place.exists():
            raise ConfigurationError(f"{argument} {text!r}: is a file; name a folder that is not there yet")
    except (OSError, RuntimeError) as error:  # a name that is too long, a loop of links, a folder of somebody else's
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{argument} {text!r}: {reason}; name a folder that is not there yet") from error
    return place


@contextmanager
def filled_at_once(place: Path, *, argument: str) -> Iterator[Path]:
    """A folder beside `place` to work in. What lies in its `WHOLE` at the end becomes `place`; after an error nothing does.

    An empty folder that is there stays the same folder and gets the content. Raises ConfigurationError where somebody else
    was faster, StoreRefused where the disk is full.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    work = place.with_name(f"{place.name[:_LONGEST_NAME_PART]}.unfinished-{secrets.token_hex(4)}")
    work.mkdir()
    try:
        (work / WHOLE).mkdir()
        yield work
        _put(work / WHOLE, place, argument)
    except Exception as error:  # a library may wrap the error of the system, as safetensors does
        if not any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT)):
            raise
        raise StoreRefused(
            f"{argument} {str(place)!r}: no space left there; free some, or name another folder"
        ) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put(whole: Path, place: Path, argument: str) -> None:
    try:
        if place.exists():
            _check_empty(place, str(place), argument)
            for path in sorted(whole.iterdir()):
                path.rename(place / path.name)
        else:
            whole.rename(place)
    except OSError as error:
        if error.errno not in _RIVAL:
            raise
        raise ConfigurationError(
            f"{argument} {str(place)!r}: something was put there meanwhile; name another"
        ) from error


def _check_empty(place: Path, text: str, argument: str) -> None:
    if any(place.iterdir()):
        raise ConfigurationError(f"{argument} {text!r}: is not empty; name a folder that is not there yet")
    if place.stat().st_dev != place.parent.stat().st_dev:
        raise ConfigurationError(f"{argument} {text!r}: is the root of a disk; name a new folder in it")
