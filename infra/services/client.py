"""Connects clients to the local services: this process, and plain `prefect` commands in a folder by its `prefect.toml`."""

import json
import os
from contextlib import suppress
from pathlib import Path

from components.generation.vllm.addresses import URLS_VARIABLE, spell_urls
from components.machine.child_environment import without_proxy
from components.machine.home import HOME
from infra.services.environment import StackStatus, environment, user_accounts
from infra.services.secrets import ensure_password, password_file, write_private
from infra.services.stack import status
from infra.services.vllm_server import key_file
from infra.services.vllm_stack import vllm_addresses

PREFECT_TOML = "prefect.toml"
_MARK = "# Written by `troupe up`; `troupe down` removes it. It holds a password: keep it out of version control.\n"


def join_local_services() -> StackStatus:
    """Point this process at the running local services, and return those it joined.

    A service is joined unless PREFECT_API_URL, MLFLOW_TRACKING_URI or AWS_ENDPOINT_URL_S3 names another server; joining one
    hides the user's own account of its kind from this process. Call it before importing prefect; a second call is harmless.
    """
    found = status(HOME)
    joined = StackStatus(
        home=found.home,
        prefect=found.prefect if found.prefect and _may_be("PREFECT_API_URL", found.prefect.api_url) else None,
        mlflow=found.mlflow if found.mlflow and _may_be("MLFLOW_TRACKING_URI", found.mlflow.url) else None,
        s3=found.s3 if found.s3 and _may_be("AWS_ENDPOINT_URL_S3", found.s3.endpoint) else None,
        worker=found.worker,
    )
    for hidden in user_accounts(joined):
        os.environ.pop(hidden, None)
    if found.prefect and not joined.prefect:
        # Another server must not be sent the password that `troupe up` wrote into prefect.toml.
        os.environ.setdefault("PREFECT_API_AUTH_STRING", "")
    servers = spell_urls(vllm_addresses(HOME).values(), key_file(HOME)) if URLS_VARIABLE not in os.environ else {}
    os.environ.update({**environment(joined), **servers, **without_proxy(os.environ)})
    return joined


def _may_be(variable: str, address: str) -> bool:
    """Whether the user's `variable` is unset or equal to `address`."""
    return os.environ.get(variable) in (None, "", address)


def write_prefect_toml(folder: Path, state: StackStatus) -> str | None:
    """Write `folder`/prefect.toml with mode 0600. Leaves a file of the user's unchanged, and returns what to do instead."""
    path = folder.absolute() / PREFECT_TOML
    if state.prefect is None:
        return None
    remove_prefect_toml(state.home)
    if path.exists() and not _is_ours(path):
        return (
            f"{path} is your own and stays: for `prefect` commands set url = {json.dumps(state.prefect.api_url)} under [api] "
            f'in it, and auth_string as in {password_file(state.home)}; or run `eval "$(troupe env)"`'
        )
    text = f"{_MARK}[api]\nurl = {json.dumps(state.prefect.api_url)}\nauth_string = {json.dumps(ensure_password(state.home))}\n"
    _path_record(state.home).write_text(str(path), encoding="utf-8")
    write_private(path, text.encode())
    return None


def remove_prefect_toml(home: Path) -> None:
    """Remove the file that the last `troupe up` wrote, in any folder, unless the user has replaced it."""
    with suppress(FileNotFoundError):
        path = Path(_path_record(home).read_text(encoding="utf-8"))
        if path.exists() and _is_ours(path):
            path.unlink()
        _path_record(home).unlink()


def _is_ours(path: Path) -> bool:
    """Whether `troupe up` wrote the file."""
    return path.read_text(errors="replace", encoding="utf-8").startswith(_MARK)


def _path_record(home: Path) -> Path:
    """The file that holds the path of the last prefect.toml."""
    return home / "services" / "prefect-toml"
