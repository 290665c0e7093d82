"""The records of a run, each read as what its key says it is, and the content that they name."""

import errno
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import DIGEST, first_complaint, make_damage_error, read_as, read_verified, remedy
from components.artifacts.refs import ArtifactRef, StageManifest, references_in
from components.config import RunConfig
from components.config.older import upgrade_values
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable
from components.frozen import Frozen
from components.runs.history import HistoryBlock
from components.runs.initial_checkpoints import InitialRecord
from components.runs.lineages import Lineage
from components.runs.retention import Collected
from components.runs.session_records import SessionEnd, SessionStart
from components.runs.shared_results import list_shared_manifests
from components.runs.step_records import StepRecord

T = TypeVar("T")

_TYPES: tuple[tuple[re.Pattern[str], type[BaseModel] | None], ...] = (
    (re.compile(r"runs/[^/]+/config\.json"), RunConfig),
    (re.compile(r"runs/[^/]+/lineages/\d+\.json"), Lineage),
    (re.compile(r"runs/[^/]+/sessions/\d+/start\.json"), SessionStart),
    (re.compile(r"runs/[^/]+/sessions/\d+/end\.json"), SessionEnd),
    (re.compile(r"runs/[^/]+/initial/policies-l\d+\.json"), InitialRecord),
    (re.compile(r"runs/[^/]+/iterations/\d+-l\d+\.json"), StepRecord),
    (re.compile(r"runs/[^/]+/history/[^/]+\.json"), HistoryBlock),
    (re.compile(r"runs/[^/]+/steps/.+/manifest\.json"), StageManifest),
    (re.compile(r"runs/[^/]+/collected/[^/]+\.json"), Collected),
    (re.compile(r"runs/[^/]+/steps/.+/(blocks|tools)/[^/]+\.json"), ArtifactRef),
    (re.compile(r"runs/[^/]+/(steps/.+/attempts|dropped|flow_runs|evaluations|outbox)/.*\.json|index/runs/.+"), None),
)
"""None: a digest is all that its readers rely on."""
_KEEPING = (InitialRecord, StageManifest, ArtifactRef)
"""They keep the content that they name. The record of a finished step names its checkpoints for good, and keeps no files."""
_REMEMBERED = (SessionStart, SessionEnd, Collected)


class Problem(Frozen):
    """An object of a run that is missing or damaged."""

    key: str
    state: Literal["missing", "damaged"]
    what: str
    named_by: str | None = None
    """The record that refers to it, if another does."""
    remedy: str = ""
    """What heals it, once that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What one record says that matters to others; `problem` if it cannot be read."""

    key: str
    problem: Problem | None = None
    value: BaseModel | None = None
    """Of sessions and garbage collections."""
    content: tuple[ArtifactRef, ...] = ()
    shared: tuple[str, ...] = ()
    """The manifests of shared results that it names."""


def is_record(key: str) -> bool:
    """Whether a key is that of a record with content. Foreign files and plain marks are none."""
    return any(pattern.fullmatch(key) for pattern, _ in _TYPES)


def read_facts(store: ArtifactStore, key: str) -> RecordFacts:
    """The facts of the record at `key`. Raises StoreUnavailable."""
    facts, problem = examine(key, lambda: _read_facts(store, key))
    return RecordFacts(key=key, problem=problem) if facts is None else facts


def examine(key: str, read: Callable[[], T], *, named_by: str | None = None) -> tuple[T | None, Problem | None]:
    """What `read` returns, or the problem of the object at `key`. A store that does not answer is no such problem."""
    try:
        return read(), None
    except ArtifactMissing:
        return None, Problem(key=key, state="missing", what="it is not in the store", named_by=named_by)
    except (ArtifactCorrupt, StoreRefused) as error:
        what = str(error).removeprefix(f"{key}: ").removesuffix(f"; {remedy(key)}")
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.EIO:
            raise
        what = f"the disk cannot read it ({error.__cause__.strerror})"
    return None, Problem(key=key, state="damaged", what=what, named_by=named_by)


def _read_facts(store: ArtifactStore, key: str) -> RecordFacts:
    content = store.read(key)
    if content is None:
        raise ArtifactMissing(key)
    fields = read_verified(key, content)
    if f'"{DIGEST}"'.encode() not in content:
        raise make_damage_error(key, "it has no digest, so nobody knows whether it was changed")
    as_type = next(as_type for pattern, as_type in _TYPES if pattern.fullmatch(key))
    value = None
    if as_type is not None:
        value = (
            read_as(key, content, as_type, upgrade_values) if as_type is RunConfig else read_as(key, content, as_type)
        )
    if isinstance(value, StageManifest) and f"{value.key}/manifest.json" != key:
        raise make_damage_error(key, f"it is the manifest of {value.key}")
    try:
        kept = tuple(references_in(fields)) if isinstance(value, _KEEPING) else ()
    except ValidationError as error:
        raise make_damage_error(
            key, f"its output is none of this version of Troupe ({first_complaint(error)})"
        ) from error
    shared = () if isinstance(value, HistoryBlock) else tuple(list_shared_manifests(content))
    return RecordFacts(key=key, value=value if isinstance(value, _REMEMBERED) else None, content=kept, shared=shared)
