"""The stage protocol: a stage's output is committed exactly once, and then only read."""

import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import make_damage_error, read_as, with_digest
from components.artifacts.refs import StageManifest
from components.errors import StoreUnavailable
from components.identity import StageKey

T = TypeVar("T")
Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResult(Generic[T]):
    """A stage's output. `reused` is True if another call committed it."""

    output: T
    manifest: StageManifest
    reused: bool


def utc_now() -> datetime:
    """The time of day in UTC."""
    return datetime.now(UTC)


def run_stage(
    store: ArtifactStore,
    key: StageKey,
    compute: Callable[[], T],
    as_type: type[T],
    *,
    attempts_so_far: int | None = None,
    decisive: Callable[[T], object] = lambda output: output,
    clock: Clock = utc_now,
) -> StageResult[T]:
    """The committed output of `key`: read when it exists, else computed and committed.

    `compute` puts its payloads into the store and returns small references of type `as_type`, anything that pydantic's
    TypeAdapter accepts. The manifest is written last and at most once, so a crash leaves garbage but no false record. Of two
    concurrent writers the later returns what the earlier committed. If the store writes in the background, the later goes on
    if `decisive` is equal for both outputs, and gets a StageOvertaken otherwise.

    `attempts_so_far`: the caller has just found no manifest and this many attempts, so the
    store is not asked again.

    **Example** `run_stage(store, key, lambda: payloads.put(store, collect()), ArtifactRef)`; a second call with an equal
    key returns the same reference in a few milliseconds, `reused=True`, without calling `collect`.
    """
    found = _find(store, key, as_type) if attempts_so_far is None else None
    if found is not None:
        return found
    started_at = clock()
    if attempts_so_far is None:
        attempt = _record_attempt(store, key, started_at, attempt=1)
    else:
        attempt = attempts_so_far + 1
        store.after_writes(lambda: _record_attempt(store.durable, key, started_at, attempt))
    output = compute()
    finished_at = clock()
    manifest = StageManifest(
        stage=key.stage,
        key=key.path,
        output=_to_json(output, as_type),
        attempt=attempt,
        seconds=max(0.0, (finished_at - started_at).total_seconds()),
        finished_at=finished_at.isoformat(),
    )

    def agrees(content: bytes) -> bool:
        other = _from_json(read_as(manifest_key(key), content, StageManifest), as_type)
        return decisive(other) == decisive(output)

    if store.create_later(manifest_key(key), with_digest(manifest.model_dump()), agrees=agrees):
        return StageResult(output=_from_json(manifest, as_type), manifest=manifest, reused=False)
    found = _find(store, key, as_type)
    if found is None:
        raise StoreUnavailable(f"{manifest_key(key)}: the store refuses to create it and does not show it either")
    return found


def read_committed(store: ArtifactStore, key: StageKey, as_type: type[T]) -> T | None:
    """The output of `key` if it is committed, else None. Raises ArtifactCorrupt when the manifest cannot be read."""
    found = _find(store, key, as_type)
    return None if found is None else found.output


def read_manifest(store: ArtifactStore, key: StageKey) -> StageManifest | None:
    """The manifest of `key`, or None."""
    content = store.read(manifest_key(key))
    if content is None:
        return None
    manifest = read_as(manifest_key(key), content, StageManifest)
    if manifest.key != key.path:
        raise make_damage_error(manifest_key(key), f"is the manifest of {manifest.key}")
    return manifest


def num_attempts(store: ArtifactStore, key: StageKey) -> int:
    """The number of times the stage was started."""
    return sum(1 for _ in store.list(f"{key.path}/attempts/"))


def manifest_key(key: StageKey) -> str:
    """The manifest's key."""
    return f"{key.path}/manifest.json"


def _find(store: ArtifactStore, key: StageKey, as_type: type[T]) -> StageResult[T] | None:
    manifest = read_manifest(store, key)
    if manifest is None:
        return None
    return StageResult(output=_from_json(manifest, as_type), manifest=manifest, reused=True)


def _record_attempt(store: ArtifactStore, key: StageKey, started_at: datetime, attempt: int) -> int:
    """Record an attempt under the next free number from `attempt` on; that number."""
    record = {"started_at": started_at.isoformat(), "host": socket.gethostname(), "pid": os.getpid()}
    content = with_digest(record)
    while not store.create(f"{key.path}/attempts/{attempt:04d}.json", content):
        attempt = max(attempt, num_attempts(store, key)) + 1
    return attempt


@lru_cache(maxsize=128)
def _adapter(as_type: Any) -> TypeAdapter[Any]:
    return TypeAdapter(as_type)


def _to_json(output: Any, as_type: Any) -> Any:
    """The output as JSON that reads back as the same value."""
    adapter = _adapter(as_type)
    tree = json.loads(json.dumps(adapter.dump_python(output, mode="json")))
    again = adapter.dump_python(adapter.validate_python(tree), mode="json")
    assert json.dumps(again) == json.dumps(tree), f"a {as_type} does not survive JSON: {tree} became {again}"
    return tree


def _from_json(manifest: StageManifest, as_type: Any) -> Any:
    try:
        return _adapter(as_type).validate_python(manifest.output)
    except ValidationError as error:
        raise make_damage_error(f"{manifest.key}/manifest.json", f"the committed output is no {as_type}") from error
