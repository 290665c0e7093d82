"""Verification of a run: every object that it refers to is read, and what is missing or damaged is named with its remedy.

Only the store is read, nothing is written: it works on a read-only store and beside a run at work. Memory is bounded by the
number of records, not by the size of what they name: files and payloads are read in chunks.
"""

import errno
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Literal, TypeVar

from pydantic import BaseModel, Field, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import FOLDER_KIND, check_digest
from components.artifacts.parallel import in_parallel
from components.artifacts.records import DIGEST, first_complaint, make_damage_error, read_verified, remedy
from components.artifacts.refs import ArtifactRef, StageManifest, references_in
from components.errors import ArtifactCorrupt, ArtifactMissing, StoreRefused, StoreUnavailable
from components.frozen import Frozen
from components.identity import config_key
from components.runs.gc import name_of
from components.runs.history import HistoryBlock, block_key, name_evaluation
from components.runs.initial_checkpoints import InitialRecord, initial_key
from components.runs.lineages import index_key, read_lineages, store_option
from components.runs.retention import FEWEST_KEPT, Collected
from components.runs.run import SHARED, RunAddress
from components.runs.session_records import SessionEnd, SessionStart, end_key, standing_lineages
from components.runs.shared_results import list_shared_manifests
from components.runs.step_records import StepRecord, is_current, stage_of, step_of, step_record_key
from components.stage_roles import Roles

T = TypeVar("T")
Progress = Callable[[float, int], None]
"""Called with the objects read so far, and how many are known to be read."""
_RECORD = re.compile(
    r"index/runs/.+|runs/[^/]+/(config\.json|sessions/\d+/(?:start|end)\.json|steps/.+/manifest\.json"
    r"|steps/.+/(?:attempts|blocks|tools)/[^/]+\.json"
    r"|(?:lineages|dropped|collected|initial|iterations|history|flow_runs|evaluations|outbox)/.+\.json)"
)
_IRREPLACEABLE = ("config.json", "lineages", "dropped", "collected")
"""What says how the run was started, which of its results count, and what was removed."""
_FORMS: dict[str, type[Frozen]] = {
    "collected": Collected,
    "iterations": StepRecord,
    "history": HistoryBlock,
    "initial": InitialRecord,
    "manifest.json": StageManifest,
    "start.json": SessionStart,
    "end.json": SessionEnd,
}
"""By kind, or name, what a record is read as."""
_CURRENT_KEYS = {"iterations": step_record_key, "history": block_key}


class Problem(Frozen):
    """An object of a run that is missing or damaged."""

    key: str
    state: Literal["missing", "damaged"]
    what: str
    named_by: str | None = None
    """The record that refers to it, if another does."""
    remedy: str = ""
    """What heals it, once that is known."""


class VerifyReport(Frozen):
    """What was read of a run, and what is wrong with it."""

    run_id: str
    num_records: int
    num_objects: int
    """Payloads and files of folders."""
    num_bytes: int
    """Of these objects."""
    problems: tuple[Problem, ...]
    """Causes before what follows from them."""
    removed: Mapping[str, tuple[int, ...]] = Field(default_factory=dict)
    """Policy -> the numbers of updates whose checkpoints garbage collection removed."""

    @property
    def is_whole(self) -> bool:
        """Whether the run has everything that it needs."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class _Record:
    """What one record says that matters to others; `problem` if it cannot be read."""

    key: str
    problem: Problem | None = None
    value: BaseModel | None = None
    """Of sessions and garbage collections."""
    content: tuple[ArtifactRef, ...] = ()
    """What it keeps. The record of a finished step names its checkpoints for good, and keeps no files."""
    shared: tuple[str, ...] = ()
    """The manifests of shared results that it names."""


def verify_run(store: ArtifactStore, run_id: str, progress: Progress = lambda done, total: None) -> VerifyReport:
    """Read everything that a run needs, so nothing that a restart has replaced. Raises StoreUnavailable; an unknown run has one
    problem, its configuration."""
    records = _read_records(store, run_id, lambda count: progress(count, count))
    owners = {
        ref.key: (key, ref)
        for key in sorted(records.found, key=records.rank, reverse=True)
        for ref in records.found[key].content
    }
    objects: dict[str, tuple[str, int]] = {}
    for name, (_, ref) in owners.items():
        files = {f"{name}/{path}": promised for path, promised in (ref.files or {}).items()}
        objects |= files if ref.kind == FOLDER_KIND else {name: (ref.sha256, ref.num_bytes)}
    num_records = len(records.found)
    total = num_records + len(objects)

    def find_problem(key: str) -> Problem | None:
        owner, _ = owners[name_of(key)]
        return _examine(key, lambda: check_digest(key, objects[key], store.digest(key)), named_by=owner)[1]

    found = in_parallel(find_problem, objects, done=lambda done: progress(num_records + done, total))
    absent = list(records.find_missing())
    removed = [each.key for each in absent if records.is_collected(each.key)]
    unreadable = (each.problem for each in records.found.values())
    problems = [each for each in (*unreadable, *found, *absent) if each is not None and each.key not in removed]
    makers = {each.key: owners[name][0] if (name := name_of(each.key)) in owners else each.key for each in problems}
    return VerifyReport(
        run_id=run_id,
        num_records=num_records,
        num_objects=len(objects),
        num_bytes=sum(num_bytes for _, num_bytes in objects.values()),
        problems=tuple(
            each.model_copy(update={"remedy": records.name_remedy(makers[each.key], each, store_option(store))})
            for each in sorted(problems, key=lambda each: records.rank(makers[each.key]))
            if _is_still_so(store, each)
        ),
        removed=_group_by_policy(records.roles, removed),
    )


def _is_still_so(store: ArtifactStore, problem: Problem) -> bool:
    """Whether what is missing was not written, or removed with what names it, while this call read."""
    if problem.state == "damaged":
        return True
    names_it = problem.named_by is None or store.read(problem.named_by) is not None
    return names_it and store.read(problem.key) is None


def _group_by_policy(roles: Roles, removed: Iterable[str]) -> dict[str, tuple[int, ...]]:
    """Policy -> the numbers of updates whose manifests, which have its name as their part, were removed."""
    steps: dict[str, set[int]] = defaultdict(set)
    for key in removed:
        if roles[stage_of(key)].writes == "checkpoints":
            steps[key.split("/")[5]].add(step_of(key) + 1)
    return {policy: tuple(sorted(numbers)) for policy, numbers in sorted(steps.items())}


def _examine(key: str, read: Callable[[], T], *, named_by: str | None = None) -> tuple[T | None, Problem | None]:
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


def _read_record(store: ArtifactStore, key: str) -> _Record:
    """The record at `key`, or its problem. Raises StoreUnavailable."""
    record, problem = _examine(key, lambda: _parse_record(key, store.read(key)))
    return record or _Record(key=key, problem=problem)


def _parse_record(key: str, content: bytes | None) -> _Record:
    if content is None:
        raise ArtifactMissing(key)
    fields, kind = read_verified(key, content), key.split("/")[2]
    if f'"{DIGEST}"'.encode() not in content:
        raise make_damage_error(key, "it has no digest, so nobody knows whether it was changed")
    if key.endswith("/manifest.json") and f"{fields['key']}/manifest.json" != key:
        raise make_damage_error(key, f"it is the manifest of {fields['key']}")
    name = "manifest.json" if key.endswith("/manifest.json") else key.rpartition("/")[2] if kind == "sessions" else kind
    as_type = _FORMS.get(name)
    keeps = kind == "initial" or (kind == "steps" and "/attempts/" not in key)
    try:
        value = None if as_type is None else as_type.model_validate(fields)
        refs = tuple(references_in(fields)) if keeps else ()
    except ValidationError as error:
        raise make_damage_error(key, f"it is of no version that is known ({first_complaint(error)})") from error
    shared = () if kind == "history" else tuple(list_shared_manifests(content))
    return _Record(key=key, value=value, content=refs, shared=shared)


def _read_records(store: ArtifactStore, run_id: str, done: Callable[[int], None]) -> "_Records":
    """The records of a run that count, the shared ones that they name, and its entry in the index."""
    listed = {*filter(_RECORD.fullmatch, store.list(f"runs/{run_id}/"))}
    lineages, _ = _examine(run_id, lambda: standing_lineages(store, run_id, read_lineages(store, run_id)))
    address = None if lineages is None else RunAddress(run_id=run_id, lineages=lineages)
    records = _Records(run_id=run_id, listed=listed, address=address, found={})

    def read(keys: Iterable[str]) -> None:
        num_read = len(records.found)
        for each in in_parallel(partial(_read_record, store), sorted(keys), done=lambda count: done(num_read + count)):
            if each.problem is None or each.problem.state == "damaged" or each.key not in listed:
                records.found[each.key] = each  # else it was removed since it was listed

    read({index_key(run_id), *filter(records.counts, listed)})
    read({key for each in records.found.values() for key in each.shared} - records.found.keys())
    return records


@dataclass(kw_only=True)
class _Records:
    """A run's records, about two kilobytes for each. What follows from them is asked once all are read."""

    run_id: str
    listed: set[str]
    """The keys of all records of the run, also of those that a restart has replaced."""
    address: RunAddress | None
    """None if a restart cannot be read: then nobody knows which records count."""
    found: dict[str, _Record]

    @cached_property
    def _sessions(self) -> list[SessionStart]:
        """The readable starts of sessions, oldest first."""
        return [each.value for _, each in sorted(self.found.items()) if isinstance(each.value, SessionStart)]

    @cached_property
    def roles(self) -> Roles:
        """Those that the newest readable session has recorded."""
        return self._sessions[-1].roles if self._sessions else Roles()

    @cached_property
    def _last_steps(self) -> set[int]:
        """The numbers of steps of the sessions that ended well."""
        ends = [(each, self.found.get(end_key(self.run_id, each.number))) for each in self._sessions]
        return {
            each.num_steps for each, end in ends if end and isinstance(end.value, SessionEnd) and not end.value.error
        }

    @cached_property
    def _recorded_steps(self) -> set[int]:
        """The steps whose end is recorded."""
        return {_parse_step(key) for key in self._list_kind("iterations")}

    @cached_property
    def _collected(self) -> frozenset[str] | None:
        """The manifests that `troupe gc` has removed; None where its records are lost, or an older one made none."""
        values = [self.found[key].value for key in self._list_kind("collected")]
        if None in values or not (self._sessions and self._sessions[0].records_collections):
            return None
        return frozenset(key for value in values if isinstance(value, Collected) for key in value.manifests)

    def counts(self, key: str) -> bool:
        """Whether the run depends on this record: no restart has replaced it. True if the restarts are unknown."""
        kind = key.split("/")[2]
        if kind == "lineages":
            return key.replace("/lineages/", "/dropped/") not in self.listed
        if self.address is None:
            return True
        if kind in ("steps", "evaluations"):
            return is_current(self.address, _name_manifest(key) if kind == "steps" else name_evaluation(key))
        return kind not in _CURRENT_KEYS or key == _CURRENT_KEYS[kind](self.address, _parse_step(key))

    def find_missing(self) -> Iterator[Problem]:
        """The records that must exist and do not, with what `troupe gc` has removed.

        A later restart, session or step tells of the earlier ones, an attempt of a result.
        """
        restarts = [_parse_step(key) for key in self.listed if key.split("/")[2] == "lineages"]
        for number in range(max(restarts, default=0) + 1):
            if (key := config_key(self.run_id, number)) not in self.listed:
                yield _report_missing(key, "the run has later records")
        if self.address is None:
            return
        if self.roles.stages and any(self._list_kind("steps")) and not any(self._list_kind("initial")):
            yield _report_missing(initial_key(self.run_id, 0), "the run has results")
        num_finished = max([*self._last_steps, *(step + 1 for step in self._recorded_steps)], default=0)
        for step in sorted({*range(num_finished)} - self._recorded_steps):
            yield _report_missing(step_record_key(self.address, step), "later ones show that the step was finished")
        there = {_parse_result(key) for key in self._list_kind("steps") if _is_manifest(key)}
        attempts = {_name_manifest(key): key for key in sorted(self._list_kind("steps")) if "/attempts/" in key}
        for key, attempt in attempts.items():
            if _parse_result(key) not in there and self._must_have_ended(key):
                yield _report_missing(key, "its step is finished", named_by=attempt)

    def is_collected(self, key: str) -> bool:
        """Whether `troupe gc` has removed this record: by its own, or as one that it may have where they are not known."""
        if not _is_manifest(key) or self.roles[stage_of(key)].expires_with != "checkpoints":
            return False
        if self._collected is None:
            return step_of(key) <= max(self._recorded_steps, default=0) - FEWEST_KEPT
        return key in self._collected

    def rank(self, key: str) -> tuple[float, float, str]:
        """The order in which problems are healed, and in which records own content: causes before what follows from them."""
        kind = key.split("/")[2]
        if kind in _IRREPLACEABLE:
            return -2, 0, key
        if kind == "initial" or _is_shared(key):
            return -1, kind == "initial", key
        if kind not in ("steps", "iterations"):
            return math.inf, 0, key
        stages = [each.name for each in self.roles.stages]
        position = stages.index(stage_of(key)) if _is_manifest(key) and stage_of(key) in stages else len(stages)
        return _parse_step(key), position, key

    def name_remedy(self, maker: str, problem: Problem, option: str) -> str:
        """What computes again what the record `maker` is, or names."""
        kind, resume = maker.split("/")[2], f"`troupe resume {self.run_id}{option}`"
        if kind in _IRREPLACEABLE:
            return "restore it from a backup: it cannot be computed again"
        if _is_manifest(maker) and not _is_shared(maker) and not self.roles[stage_of(maker)].optional:
            at = f"--from-stage {stage_of(maker)} --step {step_of(maker)}"
            return f"`troupe resume {self.run_id} {at}{option}` computes it again"
        if problem.key == maker and problem.state == "missing":
            return f"{resume} makes it again"
        entry = f" and {name_evaluation(maker)}" if kind == "evaluations" else ""
        return f"delete {maker}{entry}, and {resume} makes it again if it is needed"

    def _list_kind(self, kind: str) -> Iterator[str]:
        """The keys of the run's own records of a kind that count."""
        return (key for key in self.found if key.startswith(f"runs/{self.run_id}/{kind}/"))

    def _must_have_ended(self, result: str) -> bool:
        """Whether what was begun must have ended: its step is finished. Of what a step may lack, evaluations and interactions
        are made before the next one, or after the last one of a session that ended well."""
        role, step = self.roles[stage_of(result)], step_of(result)
        if role.optional and role.writes not in ("evaluations", "interactions"):
            return False
        is_made_after_the_last = role.optional and step in self._last_steps
        return is_made_after_the_last or (role.writes != "interactions" and step in self._recorded_steps)


def _report_missing(key: str, what: str, named_by: str | None = None) -> Problem:
    return Problem(key=key, state="missing", what=f"it is not in the store; {what}", named_by=named_by)


def _is_shared(key: str) -> bool:
    return key.startswith(f"runs/{SHARED}/")


def _is_manifest(key: str) -> bool:
    return key.endswith("/manifest.json")


def _name_manifest(key: str) -> str:
    """The manifest of the result that a record below `runs/<run>/steps/<step>/<stage>/<part>/<lineage>` belongs to."""
    return "/".join([*key.split("/")[:7], "manifest.json"])


def _parse_step(key: str) -> int:
    """The number of the step, block of steps or restart that a record has in its name."""
    return int(re.findall(r"\d+", key.split("/")[3])[0])


def _parse_result(key: str) -> tuple[int, str, str]:
    """The step, the stage and the part of a result."""
    return step_of(key), stage_of(key), key.split("/")[5]
