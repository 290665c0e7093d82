"""The container image: the file system of rootfs.py, imported into a daemon once."""

import logging
import tempfile
from pathlib import Path

from components.errors import SandboxUnavailable
from components.reporting.progress import NEWS
from components.sandbox.docker_api import DockerApi, is_missing
from components.sandbox.rootfs import find_or_build_rootfs, write_tar

REPOSITORY = "troupe-sandbox"
DIGEST_LABEL = "troupe.rootfs"
_TAG_CHARACTERS = 16
_IMPORT_SECONDS = 180.0
_log = logging.getLogger(__name__)


def ensure_image(api: DockerApi, state_folder: Path) -> tuple[str, str]:
    """The tag of our image in the daemon, imported if missing, and the digest of its file system.

    The digest is that of bubblewrap's boxes, too: they have the same file system. Raises SandboxUnavailable.
    """
    root, digest = find_or_build_rootfs(state_folder)
    tag = digest[:_TAG_CHARACTERS]
    if _digest_of(api, f"{REPOSITORY}:{tag}") != digest:
        _log.warning("building the sandbox (once): its image in the Docker daemon", extra=NEWS)
        _import(api.host, root, tag, digest)
    return f"{REPOSITORY}:{tag}", digest


def _digest_of(api: DockerApi, name: str) -> str | None:
    """The digest in the labels of an image; None without image or label."""
    try:
        with api.call(f"image {name}") as docker:
            labels: dict[str, str] = docker.inspect_image(name)["Config"].get("Labels") or {}
            return labels.get(DIGEST_LABEL)
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
