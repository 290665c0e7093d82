"""Where the local services keep their data, logs and records."""

import os
from collections.abc import Mapping
from pathlib import Path

from components.errors import ConfigurationError
from tasks.shipped import SOURCE_ROOT, is_checkout

FOLDER = ".troupe"


def found_home(cwd: Path, variables: Mapping[str, str], *, checkout: Path = SOURCE_ROOT) -> Path:
    """The home folder of a command that is called in `cwd`. Nothing is made.

    The first of: what TROUPE_HOME names; the nearest `.troupe` of this user in `cwd` or above it; the `.troupe` of the
    checkout that Troupe runs from; for an installed Troupe `$XDG_STATE_HOME/troupe`, which is `~/.local/state/troupe`
    unless set. So every folder sees the same services, unless it has a `.troupe` of its own.
    """
    if named := variables.get("TROUPE_HOME"):
        return (cwd / Path(named).expanduser()).absolute()
    for folder in (cwd, *cwd.parents):
        if _is_own(folder / FOLDER):
            return folder / FOLDER
    if is_checkout(checkout) and (_is_own(checkout / FOLDER) or os.access(checkout, os.W_OK)):
        return checkout / FOLDER
    state = Path(variables.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    return (cwd / state / "troupe").absolute()


def _is_own(folder: Path) -> bool:
    """Whether this user owns the folder. In one that somebody else put in the way, records could name foreign services."""
    try:
        return folder.is_dir() and folder.lstat().st_uid == os.getuid()
    except OSError:
        return False


HOME = found_home(Path.cwd(), os.environ)
"""The home folder of this process."""


def made_home(home: Path = HOME) -> Path:
    """`home` itself, once it is a folder that can be written. Raises ConfigurationError that names the remedy."""
    try:
        home.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(home, error.strerror) from error
    if not os.access(home, os.W_OK | os.X_OK):
        raise _unusable(home, "it may not be written")
    return home


def _unusable(home: Path, reason: str | None) -> ConfigurationError:
    return ConfigurationError(
        f"TROUPE_HOME {home}: local services cannot keep their data there ({reason}); set TROUPE_HOME to a folder of your own"
    )
