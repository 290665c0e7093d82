"""Published versions of an adapter: folders by number, each whole or absent, with its digest and its parent."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import mkdtemp

from components.errors import ArtifactCorrupt, ArtifactMissing

INFO_FILE = "version_info.json"
_NAME = re.compile(r"v(\d{6,})")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterVersion:
    """One published version. `sha256` is by file; numbers rise by one, so that two in one second differ."""

    lora_id: int
    version: int
    parent: int | None
    sha256: Mapping[str, str]
    metrics: Mapping[str, float] = field(default_factory=dict)


def publish_adapter(
    root: Path, files: Path, *, lora_id: int, metrics: Mapping[str, float] | None = None
) -> tuple[AdapterVersion, Path]:
    """Publish a copy of the adapter in `files` as the next version below `root`; the version and its folder.

    A crash leaves no version; of two publishers at once each gets a number.
    """
    root.mkdir(parents=True, exist_ok=True)
    work = Path(mkdtemp(prefix=".unfinished-", dir=root))
    try:
        for file in sorted(files.iterdir()):
            shutil.copyfile(file, work / file.name)
        digests = {file.name: _sha256(file) for file in sorted(work.iterdir())}
        while True:
            newest = newest_version(root)
            info = AdapterVersion(
                lora_id=lora_id,
                version=(newest or 0) + 1,
                parent=newest,
                sha256=digests,
                metrics=dict(metrics or {}),
            )
            (work / INFO_FILE).write_text(json.dumps(asdict(info), indent=2), encoding="utf-8")
            for file in work.iterdir():
                _sync(file)
            target = root / f"v{info.version:06}"
            try:
                os.rename(work, target)  # fails if another publisher has made it
            except OSError:
                if not target.exists():
                    raise
                continue
            _sync(root)
            return info, target
    finally:
        shutil.rmtree(work, ignore_errors=True)


def newest_version(root: Path) -> int | None:
    """The highest number that is published below `root`."""
    return max(version_numbers(root), default=None)


def version_numbers(root: Path) -> list[int]:
    """All published numbers, in numeric order."""
    if not root.is_dir():
        return []
    return sorted(int(found[1]) for each in root.iterdir() if (found := _NAME.fullmatch(each.name)))


def read_version(root: Path, version: int) -> tuple[AdapterVersion, Path]:
    """A published version, whose files are as they were published, and its folder.

    Raises ArtifactMissing if there is none, ArtifactCorrupt if a file is missing, changed or added.
    """
    folder = root / f"v{version:06}"
    if not folder.is_dir():
        raise ArtifactMissing(f"{root} has no version {version}; it has {version_numbers(root)}")
    try:
        info = AdapterVersion(**json.loads((folder / INFO_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise ArtifactCorrupt(f"{folder / INFO_FILE}: {error}") from error
    found = {each.name: _sha256(each) for each in folder.iterdir() if each.name != INFO_FILE}
    if found != info.sha256:
        changed = sorted(name for name in {*found, *info.sha256} if found.get(name) != info.sha256.get(name))
        raise ArtifactCorrupt(f"{folder}: {', '.join(changed)} differs from what was published; publish it again")
    return info, folder


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
