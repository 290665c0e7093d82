"""Keys of payloads and folders in a store, and listings of folders."""

import hashlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from components.artifacts.local_files import store_errors
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt
from components.identity import canonical_json

PAYLOADS = "payloads/"
FOLDERS = "folders/"
FOLDER_KIND = "folder"
REUSE_SECONDS = 3600.0
"""Younger objects with the right digest are not written again. Older ones are, so that garbage collection, which keeps young
objects, never removes one that a running stage has just found."""

Listing = Mapping[str, tuple[str, int]]
"""Path inside a folder, with slashes -> (sha256, num_bytes)."""


def payload_ref(content: bytes, *, kind: str) -> ArtifactRef:
    """The reference of `content`, with the key `payloads/<first two hex digits>/<sha256>`."""
    sha256 = hashlib.sha256(content).hexdigest()
    return ArtifactRef(kind=kind, key=f"{PAYLOADS}{sha256[:2]}/{sha256}", sha256=sha256, num_bytes=len(content))


def folder_ref(listing: Listing) -> ArtifactRef:
    """The reference of a folder with this listing, with the key `folders/<digest of the listing>`."""
    files = {path: listing[path] for path in sorted(listing)}
    sha256 = hashlib.sha256(canonical_json(files)).hexdigest()
    num_bytes = sum(size for _, size in files.values())
    return ArtifactRef(kind=FOLDER_KIND, key=f"{FOLDERS}{sha256}", sha256=sha256, num_bytes=num_bytes, files=files)


def largest_first(listing: Listing) -> list[str]:
    """The paths of a listing in the order that keeps a thread pool busy to the end."""
    return sorted(listing, key=lambda path: -listing[path][1])


def list_folder(folder: Path) -> dict[str, tuple[str, int]]:
    """The listing of the files below `folder`, read from their bytes. Raises what `store_errors` makes of OSErrors."""
    with store_errors(folder):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): (file_sha256(path), path.stat().st_size) for path in files}


def check_listing(ref: ArtifactRef) -> Listing:
    """The listing of a folder reference. Raises ArtifactCorrupt if it is missing, altered, or has a path outside the folder."""
    if ref.files is None:
        raise ArtifactCorrupt(f"{ref.key}: a {ref.kind} is no folder")
    if folder_ref(ref.files).sha256 != ref.sha256:
        raise ArtifactCorrupt(f"{ref.key}: the listing differs from its digest {ref.sha256}")
    for path in ref.files:
        parts = PurePosixPath(path).parts
        if not parts or path.startswith("/") or ".." in parts:
            raise ArtifactCorrupt(f"{ref.key}: {path!r} is outside its folder")
    return ref.files


def files_under(listing: Listing, under: str) -> Listing:
    """The files of a listing whose paths begin with `under`; all files for ""."""
    return {path: found for path, found in listing.items() if path.startswith(under)}


def check_content(ref: ArtifactRef, content: bytes) -> bytes:
    """`content` itself. Raises ArtifactCorrupt if its digest or size differs from that of `ref`."""
    check_digest(ref.key, (ref.sha256, ref.num_bytes), (hashlib.sha256(content).hexdigest(), len(content)))
    return content


def check_digest(key: str, promised: tuple[str, int], found: tuple[str, int]) -> None:
    """Raise ArtifactCorrupt unless both (sha256, num_bytes) are equal."""
    if tuple(promised) != found:
        raise ArtifactCorrupt(
            f"{key}: {found[1]} bytes with SHA-256 {found[0][:16]}… where {promised[1]} bytes with "
            f"{promised[0][:16]}… were stored"
        )


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def file_digest(path: Path) -> tuple[str, int]:
    """The (sha256, num_bytes) of a file's bytes. Raises OSErrors."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), file.tell()


def file_matches(path: Path, sha256: str, num_bytes: int) -> bool:
    """Whether `path` is a file with this content."""
    return path.is_file() and path.stat().st_size == num_bytes and file_sha256(path) == sha256


def prune_folder(folder: Path, listing: Listing) -> None:
    """Remove the files below `folder` that are not in `listing`."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif path.relative_to(folder).as_posix() not in listing:
            path.unlink()
