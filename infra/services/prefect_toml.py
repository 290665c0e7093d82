"""The `prefect.toml` with which plain `prefect` commands in the project's folder find the local server."""

import json
from contextlib import suppress
from pathlib import Path

from infra.services.password import ensure_password, password_file
from infra.services.secrets import write_private
from infra.services.status import StackStatus

NAME = "prefect.toml"
_MARK = "# Written by `troupe up`; `troupe down` removes it. It holds a password: keep it out of version control.\n"


def write_prefect_toml(folder: Path, state: StackStatus) -> str | None:
    """Write `folder`/prefect.toml with mode 0600. Leaves a file of the user's unchanged, and returns what to do instead."""
    path = folder.absolute() / NAME
    if state.prefect is None:
        return None
    remove_prefect_toml(state.home)
    if path.exists() and not _is_ours(path):
        return (
            f"{path} is your own and stays: for `prefect` commands set url = {json.dumps(state.prefect.api_url)} under [api] "
            f'in it, and auth_string as in {password_file(state.home)}; or run `eval "$(troupe env)"`'
        )
    text = f"{_MARK}[api]\nurl = {json.dumps(state.prefect.api_url)}\nauth_string = {json.dumps(ensure_password(state.home))}\n"
    _record(state.home).write_text(str(path))
    write_private(path, text.encode())
    return None


def remove_prefect_toml(home: Path) -> None:
    """Remove the file that the last `troupe up` wrote, in any folder, unless the user has replaced it."""
    with suppress(FileNotFoundError):
        path = Path(_record(home).read_text())
        if path.exists() and _is_ours(path):
            path.unlink()
        _record(home).unlink()


def _is_ours(path: Path) -> bool:
    """Whether `troupe up` wrote the file."""
    return path.read_text(errors="replace").startswith(_MARK)


def _record(home: Path) -> Path:
    """The file that holds the path of the last prefect.toml."""
    return home / "services" / "prefect-toml"
