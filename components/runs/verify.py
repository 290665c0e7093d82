"""Verification of a run: every object that it refers to is read, and what is missing or damaged is named with its remedy.

Only the store is read, nothing is written: it works on a read-only store and beside a run at work. Memory is bounded by the
number of records, not by the size of what they name: files and payloads are read in chunks.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from pydantic import Field, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import FOLDER_KIND, check_digest, checked_listing
from components.artifacts.parallel import in_parallel
from components.artifacts.records import first_complaint
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.frozen import Frozen
from components.runs.expected_records import Update, missing_records, removed_updates
from components.runs.initial_checkpoints import WARM_START
from components.runs.lineages import store_option
from components.runs.pipeline import Pipeline
from components.runs.remedies import Remedies, content_name
from components.runs.run import SHARED
from components.runs.run_survey import NamedCheckpoint, Survey, step_in, survey
from components.runs.step_records import stage_of
from components.runs.stored_records import Problem, examined
from components.training.base import MANIFEST_FILE, CheckpointManifest

_SHARED = f"runs/{SHARED}/"
REPLACED = "nothing needs it: a restart has replaced it, and could be taken back only with it"
Progress = Callable[[float, int], None]
"""Called with the objects read so far, and how many are known to be read."""


class Finding(Problem):
    """A problem and what heals it."""

    remedy: str


class VerifyReport(Frozen):
    """What was read of a run, and what is wrong with it."""

    run_id: str
    num_records: int
    num_objects: int
    """Payloads and files of folders."""
    num_bytes: int
    """Of these objects."""
    problems: tuple[Finding, ...]
    replaced: tuple[Finding, ...] = ()
    """Problems of results that a restart has replaced: the run does not need them."""
    removed: Mapping[str, tuple[int, ...]] = Field(default_factory=dict)
    """Policy -> the numbers of updates whose checkpoints garbage collection removed."""
    unchecked: tuple[str, ...] = ()
    """What could not be checked, and why."""

    @property
    def is_whole(self) -> bool:
        """Whether the run has everything that it needs."""
        return not self.problems


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """The payloads and folders that are needed, and the record that each was made with."""

    refs: Mapping[str, ArtifactRef]
    owners: Mapping[str, str]


def verify_run(
    store: ArtifactStore, run_id: str, pipeline: Pipeline, progress: Progress = lambda done, total: None
) -> VerifyReport:
    """Read everything that a run refers to. Raises StoreUnavailable; an unknown run has one problem, its configuration."""
    found = survey(store, run_id, lambda count: progress(count, count))
    removed = removed_updates(found)
    problems = [*found.problems, *missing_records(store, found, removed)]
    content = _needed(found, pipeline, removed)
    objects, damaged_listings = _objects(content)
    num_records = len(found.keys)
    total = num_records + len(objects)
    problems += damaged_listings
    problems += _damaged_objects(store, objects, content, lambda done: progress(num_records + done, total))
    problems += _foreign_checkpoints(store, found, content, {content_name(each.key) for each in problems})
    problems = [each for each in problems if not _is_gone_with_its_record(store, each)]
    remedies = Remedies(
        found=found,
        pipeline=pipeline,
        option=store_option(store),
        removed=[each for each in removed if found.counts(each.record)],
        lost=frozenset(content_name(each.key) for each in problems),
        owners=content.owners,
    )
    makers = {each.key: content.owners.get(content_name(each.key), each.key) for each in problems}
    problems.sort(key=lambda each: _rank(makers[each.key], pipeline))
    standing = [each for each in problems if found.counts(makers[each.key])]
    return VerifyReport(
        run_id=run_id,
        num_records=num_records,
        num_objects=len(objects),
        num_bytes=sum(num_bytes for _, num_bytes in objects.values()),
        problems=tuple(Finding(**dict(each), remedy=remedies.of(each)) for each in standing),
        replaced=tuple(Finding(**dict(each), remedy=REPLACED) for each in problems if each not in standing),
        removed=_by_policy(update for update in removed if found.counts(update.record)),
        unchecked=tuple(_unchecked(found)),
    )


def _needed(found: Survey, pipeline: Pipeline, removed: list[Update]) -> _Content:
    """All content but that of removed updates, each with the record that it was made with."""
    gone = {(update.record, update.folder) for update in removed}
    owners: dict[str, str] = {}
    for record in sorted(found.content, key=lambda key: (not found.counts(key), _rank(key, pipeline))):
        for name in found.content[record]:
            if (record, name) not in gone:
                owners.setdefault(name, record)
    for warm_start in found.warm_starts[-1:]:
        for each in itertools.chain.from_iterable(found.checkpoints.values()):
            first = each.base if each.step else each.folder
            if first in owners and not owners[first].startswith(_SHARED):
                owners[first] = warm_start  # which cannot be read
    return _Content(refs={name: found.refs[name] for name in owners}, owners=owners)


def _objects(content: _Content) -> tuple[dict[str, tuple[str, int]], list[Problem]]:
    """Key -> (sha256, num_bytes) of payloads and files, and the folders whose listings are damaged."""
    objects: dict[str, tuple[str, int]] = {}
    problems: list[Problem] = []
    for name, ref in content.refs.items():
        if ref.kind != FOLDER_KIND:
            objects[name] = (ref.sha256, ref.num_bytes)
            continue
        try:
            objects |= {f"{name}/{path}": promised for path, promised in checked_listing(ref).items()}
        except ArtifactCorrupt as error:
            problems.append(Problem(key=name, state="damaged", what=str(error), named_by=content.owners[name]))
    return objects, problems


def _damaged_objects(
    store: ArtifactStore, objects: Mapping[str, tuple[str, int]], content: _Content, done: Callable[[int], None]
) -> list[Problem]:
    def problem_of(key: str) -> Problem | None:
        owner = content.owners[content_name(key)]
        return examined(key, lambda: check_digest(key, objects[key], store.digest(key)), named_by=owner)[1]

    return [found for found in in_parallel(problem_of, objects, done=done) if found is not None]


def _foreign_checkpoints(
    store: ArtifactStore, found: Survey, content: _Content, damaged: Set[str]
) -> Iterator[Problem]:
    """The whole folders that hold another checkpoint than the record of it says."""
    named: dict[NamedCheckpoint, str] = {}
    for record, checkpoints in found.checkpoints.items():
        for each in checkpoints:
            if each.folder in content.refs and each.folder not in damaged:
                named.setdefault(each, record)

    def problem_of(checkpoint: NamedCheckpoint) -> Problem | None:
        key = f"{checkpoint.folder}/{MANIFEST_FILE}"
        return examined(key, lambda: _check_same(key, store.read(key), checkpoint), named_by=named[checkpoint])[1]

    yield from (problem for problem in in_parallel(problem_of, named) if problem is not None)


def _check_same(key: str, content: bytes | None, checkpoint: NamedCheckpoint) -> None:
    if content is None:
        raise ArtifactMissing(key)
    try:
        manifest = CheckpointManifest.model_validate_json(content)
    except ValidationError as error:
        raise ArtifactCorrupt(f"no manifest of a checkpoint ({first_complaint(error)})") from error
    for kind in ("weights_digest", "optimizer_digest"):
        if getattr(manifest, kind) != getattr(checkpoint, kind):
            raise ArtifactCorrupt(
                f"it has the {kind} {getattr(manifest, kind)[:16]}…, and the record of the checkpoint has "
                f"{getattr(checkpoint, kind)[:16]}…"
            )


def _is_gone_with_its_record(store: ArtifactStore, problem: Problem) -> bool:
    """Whether content is missing because its record was removed while this call read."""
    return problem.named_by is not None and problem.state == "missing" and store.read(problem.named_by) is None


def _unchecked(found: Survey) -> Iterator[str]:
    if found.address is None:
        yield "which results count, and which are missing: a restart cannot be read"
    if not found.warm_starts:
        yield "the policies before training: their key follows from the configuration, which cannot be read"
    elif not set(found.warm_starts) <= found.keys:
        yield f"the policies before training: another version of {WARM_START.name} made them, whose key is unknown"


def _by_policy(removed: Iterable[Update]) -> dict[str, tuple[int, ...]]:
    steps: dict[str, set[int]] = defaultdict(set)
    for update in removed:
        steps[update.policy].add(update.step + 1)
    return {policy: tuple(sorted(numbers)) for policy, numbers in sorted(steps.items())}


def _rank(key: str, pipeline: Pipeline) -> tuple[int, int, int, str]:
    """The order in which problems are healed, and in which records own content: causes before what follows from them."""
    if key.startswith(_SHARED):
        return 1, 0, 0, key
    step, names = step_in(key), [stage.name for stage in pipeline.stages]
    if step is None:
        return (0 if key.split("/")[-2:-1] == ["lineages"] or key.endswith("/config.json") else 3), 0, 0, key
    if "/iterations/" in key:
        return 2, step, len(names), key
    stage = stage_of(key)
    is_own = key.endswith("/manifest.json")
    return 2, step, names.index(stage) if is_own and stage in names else len(names) + 1, key
