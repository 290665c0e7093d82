"""The home folder: data, logs and records of the local services."""

import os
from collections.abc import Mapping
from pathlib import Path

from components.errors import ConfigurationError
from components.machine.package_files import SOURCE_ROOT, is_checkout
from components.machine.process_variables import read_variables

FOLDER = ".troupe"


def resolve_home(cwd: Path, variables: Mapping[str, str], *, checkout: Path = SOURCE_ROOT) -> Path:
    """The home folder of a command in `cwd`. Creates nothing.

    The first of: TROUPE_HOME; the nearest `.troupe` of this user in `cwd` or above it; the `.troupe` of Troupe's checkout; for
    an installed Troupe `$XDG_STATE_HOME/troupe`, by default `~/.local/state/troupe`. So all folders share the same services,
    unless they have their own `.troupe`.
    """
    if named := variables.get("TROUPE_HOME"):
        return (cwd / Path(named).expanduser()).absolute()
    for folder in (cwd, *cwd.parents):
        if _is_custom(folder / FOLDER):
            return folder / FOLDER
    if is_checkout(checkout) and (_is_custom(checkout / FOLDER) or os.access(checkout, os.W_OK)):
        return checkout / FOLDER
    state = Path(variables.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return (cwd / state / "troupe").absolute()


def _is_custom(folder: Path) -> bool:
    """Whether this user owns the folder. In a folder of another user, records could name foreign services."""
    try:
        return folder.is_dir() and folder.lstat().st_uid == os.getuid()
    except OSError:
        return False


HOME = resolve_home(Path.cwd(), read_variables())
"""The home folder of this process."""


def ensure_home(home: Path = HOME) -> Path:
    """Create `home` if missing, and return it. Raises ConfigurationError if it is not a writable folder."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(home, error.strerror) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise _unusable(home, "it may not be written")
    return home


def ensure_private(folder: Path) -> Path:
    """Create a part of a home folder that this user alone may enter, and return it. The home itself is passable, for boxes."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_mode & 0o077:
        folder.chmod(0o700)
    return folder


def is_of_another(home: Path, recorded: Path) -> bool:
    """Whether a record in `home` was written for another folder that still exists: whoever copied a home has copied its
    records, but not what runs."""
    try:
        return not recorded.samefile(home)
    except OSError:
        return False  # the home was moved


def _unusable(home: Path, reason: str | None) -> ConfigurationError:
    return ConfigurationError(
        f"TROUPE_HOME {home}: local services cannot keep their data there ({reason}); set TROUPE_HOME to a folder of your own"
    )
