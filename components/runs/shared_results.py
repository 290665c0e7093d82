"""Results that runs share, below `runs/_shared/`: which of them no run uses any more."""

import re
from collections.abc import Iterator, Mapping, Sequence

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.records import read_as
from components.errors import ArtifactCorrupt
from components.identity import StageKey
from components.runs.run import SHARED
from components.runs.session_records import SESSION_START, SessionStart
from components.runs.stage_protocol import manifest_key

_RESULT = re.compile(rf"(runs/{SHARED}/steps/\d+/[^/]+/[^/]+/[^/]+)/.*")
_MANIFEST = re.compile(rf'runs/{SHARED}/[^"]+/manifest\.json'.encode())


def list_unused_results(
    records: Sequence[StoredObject], contents: Mapping[str, bytes], *, age_seconds: float
) -> list[StoredObject]:
    """The records of shared results that no run uses and that are at least so old, manifests first.

    `contents` are the records that were read. A run uses what its records name, as its warm starts. Of a run whose newest
    session recorded no roles, the warm starts of that session's version stay.
    """
    try:
        used = {
            manifest
            for key, content in contents.items()
            if not key.startswith(f"runs/{SHARED}/")
            for manifest in list_shared_manifests(content)
        }
        starts = [
            read_as(key, content, SessionStart) for key, content in contents.items() if SESSION_START.fullmatch(key)
        ]
    except ArtifactCorrupt:
        return []
    versions = {version for start in starts if not start.roles.stages for version in _list_warm_starts(start)}
    by_result: dict[str, list[StoredObject]] = {}
    for each in records:
        if found := _RESULT.fullmatch(each.key):
            by_result.setdefault(found[1], []).append(each)
    unused = [
        each
        for result, found in by_result.items()
        if f"{result}/manifest.json" not in used and result.split("/")[4] not in versions
        if all(each.age_seconds >= age_seconds for each in found)
        for each in found
    ]
    return sorted(unused, key=lambda each: (not each.key.endswith("/manifest.json"), each.key))


def adopt_result(store: ArtifactStore, key: StageKey, *, earlier: ArtifactStore) -> None:
    """Commit in `store` what `earlier` has committed under `key`, if it has; its output must be whole in the manifest."""
    name = manifest_key(key)
    if store.read(name) is None and (content := earlier.read(name)) is not None:
        store.create(name, content)


def list_shared_manifests(record: bytes) -> list[str]:
    """The manifests of shared results that a record names."""
    return [key.decode() for key in _MANIFEST.findall(record)]


def _list_warm_starts(start: SessionStart) -> Iterator[str]:
    """**Example** "warm_start-v1" for a session of that version."""
    versions = start.provenance.stage_versions
    return (f"{each}-v{versions[each]}" for each in start.roles.writing("initial checkpoints") if each in versions)
