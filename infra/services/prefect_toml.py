"""The `prefect.toml` with which plain `prefect` commands, run in the project's folder, find the local server."""

import json
import os
from contextlib import suppress
from pathlib import Path

from infra.services.password import ensure_password, password_file
from infra.services.status import StackStatus

NAME = "prefect.toml"
_MARK = "# Written by `troupe up`; `troupe down` removes it. It holds a password: keep it out of version control.\n"


def write_prefect_toml(folder: Path, state: StackStatus) -> str | None:
    """Write `folder`/prefect.toml, mode 0600, unless the user has one already; then nothing is changed, and what to do
    instead is returned."""
    path = folder.absolute() / NAME
    if state.prefect is None:
        return None
    remove_prefect_toml(state.home)
    if _is_ours(path) is False:
        return (
            f"{path} is your own and stays: for `prefect` commands set url = {json.dumps(state.prefect.api_url)} under [api] "
            f'in it, and auth_string as in {password_file(state.home)}; or run `eval "$(troupe env)"`'
        )
    text = f"{_MARK}[api]\nurl = {json.dumps(state.prefect.api_url)}\nauth_string = {json.dumps(ensure_password(state.home))}\n"
    partial = path.with_name(f".{NAME}.{os.getpid()}")
    with open(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as file:
        file.write(text)
    _record(state.home).write_text(str(path))
    partial.replace(path)
    return None


def remove_prefect_toml(home: Path) -> None:
    """Remove what the last `troupe up` wrote, wherever it was, unless the user has replaced it."""
    with suppress(FileNotFoundError):
        path = Path(_record(home).read_text())
        if _is_ours(path):
            path.unlink()
        _record(home).unlink()


def _is_ours(path: Path) -> bool | None:
    """Whether `troupe up` wrote it; None where there is none."""
    try:
        return path.read_text(errors="replace").startswith(_MARK)
    except FileNotFoundError:
        return None


def _record(home: Path) -> Path:
    """Where `troupe down` finds the file again."""
    return home / "services" / "prefect-toml"
