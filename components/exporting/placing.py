"""Creating a folder atomically: it is filled beside its destination, and then renamed."""

import errno
import glob
import os
import secrets
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.errors import ConfigurationError, StoreRefused
from components.machine.process_ids import ProcessId, this_process

WHOLE = "whole"
"""The part of a working folder that becomes the destination."""
_MOST_NAME_BYTES = 100
_TAKEN = {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR}


def check_place(text: str, *, argument: str) -> Path:
    """The folder that `text` names, absent or empty. Raises ConfigurationError, which names the argument."""
    if "://" in text:
        raise ConfigurationError(
            f"{argument} {text!r}: name a folder of this machine, and upload its content from there"
        )
    try:
        place = Path(text).resolve()
        if place.is_dir():
            _check_empty(place, text, argument)
        elif place.exists():
            raise ConfigurationError(f"{argument} {text!r}: is a file; name a folder that does not exist yet")
    except (OSError, RuntimeError) as error:  # too long, a loop of links, no permission
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{argument} {text!r}: {reason}; name a folder that does not exist yet") from error
    return place


@contextmanager
def fill_at_once(place: Path, *, argument: str) -> Iterator[Path]:
    """A working folder beside `place`. At the end its `WHOLE` becomes `place`; after an error nothing does.

    Working folders left there by killed processes of this host are removed, and an existing empty `place` is filled. Raises
    ConfigurationError if `place` has been taken meanwhile, StoreRefused on a full disk.
    """
    prefix = f"{os.fsencode(place.name)[:_MOST_NAME_BYTES].decode(errors='ignore')}.unfinished-"
    work = place.with_name(f"{prefix}{secrets.token_hex(4)}@{socket.gethostname()}-{this_process()}")
    try:
        _remove_leftovers(place.parent, prefix)
        (work / WHOLE).mkdir(parents=True)
    except OSError as error:
        raise ConfigurationError(
            f"{argument} {str(place)!r}: it cannot be created ({error.strerror}); name another folder"
        ) from error
    try:
        yield work
        _put(work / WHOLE, place, argument)
    except Exception as error:  # a library may wrap the OSError, as safetensors does
        if not any(os.strerror(number) in str(error) for number in (errno.ENOSPC, errno.EDQUOT)):
            raise
        raise StoreRefused(f"{argument} {str(place)!r}: no space left; free some, or name another folder") from error
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _remove_leftovers(parent: Path, prefix: str) -> None:
    """Remove the work folders whose process ran on this host and has ended."""
    for path in parent.glob(f"{glob.escape(prefix)}*"):
        host, *process = path.name.removeprefix(prefix).partition("@")[2].rsplit("-", 3)
        owner = ProcessId.parse("-".join(process))
        if host == socket.gethostname() and owner is not None and owner.is_gone():
            shutil.rmtree(path, ignore_errors=True)


def _put(whole: Path, place: Path, argument: str) -> None:
    try:
        if place.exists():
            _check_empty(place, str(place), argument)
            for path in sorted(whole.iterdir()):
                path.rename(place / path.name)
        else:
            whole.rename(place)
    except OSError as error:
        if error.errno not in _TAKEN:
            raise
        raise ConfigurationError(f"{argument} {str(place)!r}: was created meanwhile; name another folder") from error


def _check_empty(place: Path, text: str, argument: str) -> None:
    if any(place.iterdir()):
        raise ConfigurationError(f"{argument} {text!r}: is not empty; name a folder that does not exist yet")
    if place.stat().st_dev != place.parent.stat().st_dev:
        raise ConfigurationError(f"{argument} {text!r}: is the root of a disk; name a new folder in it")
