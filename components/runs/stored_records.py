"""The records of a run, each read as what its key says it is, and the content that they name."""

import errno
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.records import DIGEST, damaged, first_complaint, read_as, remedy, verified
from components.artifacts.refs import ArtifactRef, CheckpointRef, StageManifest, references_in
from components.config import RunConfig
from components.config.older import upgrade_values
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable
from components.frozen import Frozen
from components.runs.history import HistoryBlock
from components.runs.initial_checkpoints import InitialRecord
from components.runs.lineages import Lineage
from components.runs.retention import Collected
from components.runs.session_records import SessionEnd, SessionStart
from components.runs.step_records import StepRecord
from components.schema import EvalReport

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
_KEPT = (RunConfig, Lineage, SessionStart, SessionEnd, Collected)
_EVALUATION = TypeAdapter(EvalReport)


class Problem(Frozen):
    """An object of a run that is missing or damaged. `named_by` is the record that refers to it, if another does."""

    key: str
    state: Literal["missing", "damaged"]
    what: str
    named_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """What one record says that matters to others; `problem` if it cannot be read."""

    key: str
    problem: Problem | None = None
    value: BaseModel | None = None
    """Of configurations, restarts, sessions and garbage collections."""
    content: tuple[ArtifactRef, ...] = ()
    checkpoints: tuple[CheckpointRef, ...] = ()
    shared: tuple[str, ...] = ()
    """The manifests of shared results that it names."""


def is_record(key: str) -> bool:
    """Whether a key is that of a record with content. Foreign files and plain marks are none."""
    return any(pattern.fullmatch(key) for pattern, _ in _TYPES)


def read_facts(store: ArtifactStore, key: str, *, is_evaluation: bool = False) -> RecordFacts:
    """The facts of the record at `key`, a report if it is the manifest of an evaluation. Raises StoreUnavailable."""
    facts, problem = examine(key, lambda: _facts(store, key, is_evaluation))
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


def _facts(store: ArtifactStore, key: str, is_evaluation: bool) -> RecordFacts:
    content = store.read(key)
    if content is None:
        raise ArtifactMissing(key)
    if f'"{DIGEST}"'.encode() not in content:
        verified(key, content)  # names what else is wrong with it
        raise damaged(key, "it has no digest, so nobody knows whether it was changed")
    as_type = next(as_type for pattern, as_type in _TYPES if pattern.fullmatch(key))
    if as_type is None:
        return RecordFacts(key=key, shared=tuple(_shared_keys(verified(key, content))))
    value = read_as(key, content, as_type, upgrade_values) if as_type is RunConfig else read_as(key, content, as_type)
    try:
        if isinstance(value, StageManifest) and is_evaluation:
            _EVALUATION.validate_python(value.output)
        return _facts_of(key, value)
    except ValidationError as error:
        raise damaged(key, f"its output is none of this version of Troupe ({first_complaint(error)})") from error


def _facts_of(key: str, value: BaseModel) -> RecordFacts:
    if isinstance(value, StageManifest):
        if f"{value.key}/manifest.json" != key:
            raise damaged(key, f"it is the manifest of {value.key}")
        checkpoints = tuple(_checkpoints_in(value.output))
        return RecordFacts(key=key, content=tuple(references_in(value.output)), checkpoints=checkpoints)
    if isinstance(value, StepRecord):  # it names its checkpoints for good, and keeps no files
        return RecordFacts(key=key, checkpoints=tuple(value.checkpoints.values()))
    if isinstance(value, InitialRecord):
        checkpoints = tuple(value.checkpoints.values())
        return RecordFacts(key=key, content=value.content, checkpoints=checkpoints, shared=(value.manifest,))
    if isinstance(value, ArtifactRef):
        return RecordFacts(key=key, content=(value,))
    return RecordFacts(key=key, value=value if isinstance(value, _KEPT) else None)


def _checkpoints_in(output: Any) -> Iterator[CheckpointRef]:
    if isinstance(output, dict):
        if output.keys() >= {"policy", "step", "folder", "weights_digest", "optimizer_digest"}:
            yield CheckpointRef.model_validate(output)
            return
        output = list(output.values())
    if isinstance(output, list):
        for inner in output:
            yield from _checkpoints_in(inner)


def _shared_keys(value: Any) -> Iterator[str]:
    """The manifests of shared results anywhere in a record."""
    if isinstance(value, str) and value.startswith("runs/_shared/") and value.endswith("/manifest.json"):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _shared_keys(inner)
