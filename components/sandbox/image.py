"""The container image: the file system of rootfs.py, brought into a daemon once."""

import tempfile
from pathlib import Path
from typing import Any

from components.errors import SandboxUnavailable
from components.sandbox.docker_api import DockerApi, is_missing
from components.sandbox.rootfs import cached_rootfs, write_tar

REPOSITORY = "troupe-sandbox"
DIGEST_LABEL = "troupe.rootfs"
_TAG_CHARACTERS = 16
_IMPORT_SECONDS = 180.0


def ensure_image(api: DockerApi, state_folder: Path) -> tuple[str, str]:
    """The tag of our image in the daemon, imported when it is not there, and the digest of its file system.

    Bubblewrap's boxes have the same file system, and so the same digest: a program ends alike in both. Raises
    SandboxUnavailable.
    """
    root, digest = cached_rootfs(state_folder)
    tag = digest[:_TAG_CHARACTERS]
    found = _inspect(api, f"{REPOSITORY}:{tag}")
    if found is None or (found["Config"].get("Labels") or {}).get(DIGEST_LABEL) != digest:
        _import(api.host, root, tag, digest)
    return f"{REPOSITORY}:{tag}", digest


def _inspect(api: DockerApi, name: str) -> dict[str, Any] | None:
    try:
        with api.call(f"image {name}") as docker:
            found: dict[str, Any] = docker.inspect_image(name)
            return found
    except SandboxUnavailable as error:
        if is_missing(error):
            return None
        raise


def _import(host: str, root: Path, tag: str, digest: str) -> None:
    with tempfile.TemporaryFile() as archive, DockerApi(host, timeout_seconds=_IMPORT_SECONDS) as api:
        write_tar(root, archive)
        archive.seek(0)
        with api.call(f"image {REPOSITORY}:{tag} cannot be imported") as docker:
            docker.import_image(src=archive, repository=REPOSITORY, tag=tag, changes=[f"LABEL {DIGEST_LABEL}={digest}"])
