"""Verification of a run: every object that it refers to is read, and what is missing or damaged is named with its remedy.

Only the store is read, nothing is written: it works on a read-only store and beside a run at work. Memory is bounded by the
number of records, not by the size of what they name: files and payloads are read in chunks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set

from pydantic import Field, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import FOLDER_KIND, check_digest, check_listing
from components.artifacts.parallel import in_parallel
from components.artifacts.records import first_complaint
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.frozen import Frozen
from components.runs.lineages import store_option
from components.runs.run import SHARED
from components.runs.run_survey import (
    Survey,
    evaluation_manifest,
    find_missing_records,
    is_collected,
    is_manifest,
    step_in,
    survey,
)
from components.runs.step_records import stage_of, step_of
from components.runs.stored_records import Problem, examine
from components.training.base import MANIFEST_FILE, CheckpointManifest

_SHARED = f"runs/{SHARED}/"
REPLACED = "nothing needs it: a restart has replaced it, and could be taken back only with it"
IRREPLACEABLE = "restore it from a backup: it cannot be computed again"
_IRREPLACEABLE = ("config.json", "lineages", "dropped", "collected")
"""What says how the run was started, which of its results count, and what was removed."""
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


Content = Mapping[str, tuple[str, ArtifactRef]]
"""The key of a payload or folder -> the record that it was made with, and its reference."""


def verify_run(store: ArtifactStore, run_id: str, progress: Progress = lambda done, total: None) -> VerifyReport:
    """Read everything that a run refers to. Raises StoreUnavailable; an unknown run has one problem, its configuration."""
    found = survey(store, run_id, lambda count: progress(count, count))
    absent = list(find_missing_records(found))
    removed = [each.key for each in absent if is_manifest(each.key) and is_collected(found, each.key)]
    problems = [each.problem for each in found.facts.values() if each.problem is not None]
    problems += [each for each in absent if each.key not in removed and store.read(each.key) is None]
    content = _collect_content(found)
    objects, damaged_listings = _list_objects(content)
    total = len(found.keys) + len(objects)
    problems += damaged_listings
    problems += _check_objects(store, objects, content, lambda done: progress(len(found.keys) + done, total))
    problems += _check_checkpoints(store, found, content, {content_name(each.key) for each in problems})
    problems = [each for each in problems if not _is_gone_with_its_record(store, each)]
    makers = {
        each.key: content[name][0] if (name := content_name(each.key)) in content else each.key for each in problems
    }
    problems.sort(key=lambda each: _rank(found, makers[each.key]))
    standing = [each for each in problems if found.counts(makers[each.key])]
    return VerifyReport(
        run_id=run_id,
        num_records=len(found.keys),
        num_objects=len(objects),
        num_bytes=sum(num_bytes for _, num_bytes in objects.values()),
        problems=tuple(
            Finding(**dict(each), remedy=_name_remedy(found, makers[each.key], each, store_option(store)))
            for each in standing
        ),
        replaced=tuple(Finding(**dict(each), remedy=REPLACED) for each in problems if each not in standing),
        removed=_group_by_policy(found, removed),
        unchecked=tuple(_tell_unchecked(found)),
    )


def _name_remedy(found: Survey, maker: str, problem: Problem, option: str) -> str:
    """What computes again what the record `maker` is, or names."""
    resume = f"troupe resume {found.run_id}"
    kind = maker.split("/")[2]
    if kind in _IRREPLACEABLE:
        return IRREPLACEABLE
    if is_manifest(maker) and not maker.startswith(_SHARED) and not found.roles[stage_of(maker)].optional:
        return f"`{resume} --from-stage {stage_of(maker)} --step {step_of(maker)}{option}` computes it again"
    if problem.key == maker and problem.state == "missing":
        return f"`{resume}{option}` makes it again"
    entry = f" and {evaluation_manifest(maker)}" if kind == "evaluations" else ""
    return f"delete {maker}{entry}, and `{resume}{option}` makes it again if it is needed"


def _collect_content(found: Survey) -> Content:
    content: dict[str, tuple[str, ArtifactRef]] = {}
    for record in sorted(found.facts, key=lambda key: (not found.counts(key), _rank(found, key))):
        for ref in found.facts[record].content:
            content.setdefault(ref.key, (record, ref))
    return content


def _list_objects(content: Content) -> tuple[dict[str, tuple[str, int]], list[Problem]]:
    """Key -> (sha256, num_bytes) of payloads and files, and the folders whose listings are damaged."""
    objects: dict[str, tuple[str, int]] = {}
    problems: list[Problem] = []
    for name, (record, ref) in content.items():
        if ref.kind != FOLDER_KIND:
            objects[name] = (ref.sha256, ref.num_bytes)
            continue
        try:
            objects |= {f"{name}/{path}": promised for path, promised in check_listing(ref).items()}
        except ArtifactCorrupt as error:
            problems.append(Problem(key=name, state="damaged", what=str(error), named_by=record))
    return objects, problems


def _check_objects(
    store: ArtifactStore, objects: Mapping[str, tuple[str, int]], content: Content, done: Callable[[int], None]
) -> list[Problem]:
    def find_problem(key: str) -> Problem | None:
        owner, _ = content[content_name(key)]
        return examine(key, lambda: check_digest(key, objects[key], store.digest(key)), named_by=owner)[1]

    return [found for found in in_parallel(find_problem, objects, done=done) if found is not None]


def _check_checkpoints(store: ArtifactStore, found: Survey, content: Content, damaged: Set[str]) -> list[Problem]:
    """The whole folders that hold another checkpoint than the record of it says."""
    named = {
        (each.folder.key, each.weights_digest, each.optimizer_digest): record
        for record, facts in found.facts.items()
        for each in facts.checkpoints
        if each.folder.key in content and each.folder.key not in damaged
    }

    def find_problem(checkpoint: tuple[str, str, str]) -> Problem | None:
        key = f"{checkpoint[0]}/{MANIFEST_FILE}"
        return examine(key, lambda: _check_same(key, store.read(key), checkpoint), named_by=named[checkpoint])[1]

    return [problem for problem in in_parallel(find_problem, named) if problem is not None]


def _check_same(key: str, content: bytes | None, checkpoint: tuple[str, str, str]) -> None:
    if content is None:
        raise ArtifactMissing(key)
    try:
        manifest = CheckpointManifest.model_validate_json(content)
    except ValidationError as error:
        raise ArtifactCorrupt(f"no manifest of a checkpoint ({first_complaint(error)})") from error
    for kind, named in zip(("weights_digest", "optimizer_digest"), checkpoint[1:], strict=True):
        if (own := getattr(manifest, kind)) != named:
            raise ArtifactCorrupt(f"it has the {kind} {own[:16]}…, and the record of the checkpoint has {named[:16]}…")


def _is_gone_with_its_record(store: ArtifactStore, problem: Problem) -> bool:
    """Whether content is missing because its record was removed while this call read."""
    return problem.named_by is not None and problem.state == "missing" and store.read(problem.named_by) is None


def _tell_unchecked(found: Survey) -> Iterator[str]:
    if found.address is None:
        yield "which results count, and which are missing: a restart cannot be read"
    if not any(found.of_kind("initial")):
        yield "the policies before training: the run has no record of them"


def _group_by_policy(found: Survey, removed: list[str]) -> dict[str, tuple[int, ...]]:
    """Policy -> the numbers of updates whose manifests, which have its name as their part, were removed."""
    steps: dict[str, set[int]] = defaultdict(set)
    for key in removed:
        if found.roles[stage_of(key)].writes == "checkpoints":
            steps[key.split("/")[5]].add(step_of(key) + 1)
    return {policy: tuple(sorted(numbers)) for policy, numbers in sorted(steps.items())}


def _rank(found: Survey, key: str) -> tuple[int, int, int, str]:
    """The order in which problems are healed, and in which records own content: causes before what follows from them."""
    if key.startswith(_SHARED):
        return 1, 0, 0, key
    kind = key.split("/")[2]
    if kind in ("config.json", "lineages", "initial"):
        return (1 if kind == "initial" else 0), 1, 0, key
    if kind not in ("steps", "iterations"):
        return 3, 0, 0, key
    names = [each.name for each in found.roles.stages]
    stage = stage_of(key) if is_manifest(key) else ""
    return 2, step_in(key), names.index(stage) if stage in names else len(names) + (kind == "steps"), key


def content_name(key: str) -> str:
    """The key that a reference names: the payload itself, or the folder of a file."""
    return "/".join(key.split("/")[:2]) if key.startswith("folders/") else key
