"""Results that runs share, below `runs/_shared/`: which of them no run uses any more."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.records import read_as
from components.config import RunConfig
from components.errors import ArtifactCorrupt
from components.identity import StageKey
from components.runs.initial_checkpoints import WARM_START, warm_start_key
from components.runs.lineages import Lineage
from components.runs.run import SHARED
from components.runs.session_records import SessionStart
from components.runs.stage_protocol import manifest_key

_RESULT = re.compile(rf"(runs/{SHARED}/(?:steps|evaluations)/\d+/[^/]+/[^/]+/[^/]+?)(?:/.*|\.json)")
_MANIFEST = re.compile(rf'runs/{SHARED}/[^"]+/manifest\.json'.encode())
_INDEX = re.compile(r"runs/[^/]+/evaluations/(.+)\.json")
_CONFIG = re.compile(r"runs/[^/]+/config\.json")
_LINEAGE = re.compile(r"runs/[^/]+/lineages/[^/]+")
_SESSION = re.compile(r"runs/[^/]+/sessions/[^/]+/start\.json")


def unused_results(
    records: Sequence[StoredObject], contents: Mapping[str, bytes], *, age_seconds: float
) -> list[StoredObject]:
    """The records of shared results that no run uses and that are at least so old, manifests first.

    `contents` are the records that were read. A run uses the warm start of its configuration and of each restart's, and what
    its records name, evaluations by their index. A warm start of another version stays while a run's newest session is of
    that version; all stay while a configuration cannot be read.
    """
    try:
        used = set(_used_manifests(records, contents))
        versions = {_warm_start_version(key, content) for key, content in contents.items() if _SESSION.fullmatch(key)}
    except ArtifactCorrupt:
        return []
    by_result: dict[str, list[StoredObject]] = {}
    for each in records:
        if found := _RESULT.fullmatch(each.key):
            by_result.setdefault(found[1].replace("/evaluations/", "/steps/", 1), []).append(each)
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


def shared_manifests(record: bytes) -> list[str]:
    """The manifests of shared results that a record names."""
    return [key.decode() for key in _MANIFEST.findall(record)]


def _used_manifests(records: Iterable[StoredObject], contents: Mapping[str, bytes]) -> Iterator[str]:
    """The manifests that runs use. Raises ArtifactCorrupt for a configuration of another version of Troupe."""
    own = f"runs/{SHARED}/"
    for each in records:
        if (found := _INDEX.fullmatch(each.key)) and not each.key.startswith(own):
            yield f"{own}steps/{found[1]}/manifest.json"
    for key, content in contents.items():
        if key.startswith(own):
            continue
        yield from shared_manifests(content)
        if _CONFIG.fullmatch(key):
            yield warm_start_key(read_as(key, content, RunConfig))
        elif _LINEAGE.fullmatch(key):
            yield warm_start_key(read_as(key, content, Lineage).config)


def _warm_start_version(key: str, content: bytes) -> str | None:
    """**Example** "warm_start-v1" for a session of that version; None for one of the version that this Troupe knows."""
    version = read_as(key, content, SessionStart).provenance.stage_versions.get(WARM_START.name)
    return None if version in (None, WARM_START.version) else f"{WARM_START.name}-v{version}"
