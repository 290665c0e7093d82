"""The history of a run in few requests: finished steps and evaluations, a hundred steps per record.

A block under `runs/<run_id>/history/` is a copy of the records of its steps; if it is missing or damaged, those are read. Its
key depends on theirs, so a restart has its own blocks. The key of an evaluation's manifest is stored under
`runs/<run_id>/evaluations/` before the manifest: a crash in between leaves an entry that is skipped, not a hidden evaluation.
"""

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import Field, TypeAdapter, ValidationError

from components.artifacts.base import ArtifactStore
from components.artifacts.parallel import in_parallel
from components.artifacts.records import make_damage_error, read_as, with_digest
from components.artifacts.refs import StageManifest
from components.errors import ArtifactCorrupt
from components.frozen import Frozen
from components.identity import StageKey, fingerprint
from components.runs.run import RunAddress
from components.runs.step_records import (
    StepSummary,
    manifest_keys,
    read_step_record,
    step_of,
    step_record_key,
)
from components.schema import EvalReport

STEPS_PER_BLOCK = 100
_EVALUATION = TypeAdapter(EvalReport)
_MAX_REBUILT_BLOCKS = 2
"""Blocks written per call, so that a run whose blocks were lost gets them gradually."""

_log = logging.getLogger(__name__)


Progress = Callable[[float, int], None]
"""Called with the steps read so far, and their total."""


class ShownCheckpoint(Frozen):
    """One policy after a step: digests, and the key of its folder."""

    weights_digest: str
    optimizer_digest: str
    folder: str
    parents: tuple[str, ...] = ()
    """Digests of the weights that it was mixed from."""


class StepView(Frozen):
    """A finished step, or the `error` because of which it cannot be shown."""

    step: int
    summary: StepSummary = Field(default_factory=StepSummary)
    checkpoints: dict[str, ShownCheckpoint] = Field(default_factory=dict)
    error: str | None = None


class HistoryBlock(Frozen):
    """The content of a block: consecutive steps and their evaluations (manifest key -> report)."""

    steps: tuple[StepView, ...]
    evaluations: dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All finished steps and evaluations in order, and the errors of unreadable ones."""

    steps: tuple[StepView, ...]
    evaluations: tuple[dict[str, Any], ...]
    errors: tuple[str, ...]


def read_history(
    store: ArtifactStore, run: RunAddress, num_finished: int, progress: Progress = lambda done, total: None
) -> History:
    """The first `num_finished` steps of a run and the evaluations up to there.

    Costs one request per full block, per step after the last block, and per evaluation in no block.

    **Example** 1,234 steps, an evaluation every 100: 12 blocks, 34 steps, one evaluation and three listings.
    """
    reading = _Reading(store, run, _read_indexed(store, run), progress=lambda done: progress(done, num_finished))
    num_blocks = num_finished // STEPS_PER_BLOCK
    blocks = in_parallel(reading.block, range(num_blocks))
    stretches = [found or reading.stretch(*_steps_of(block)) for block, found in enumerate(blocks)]
    stretches.append(reading.stretch(num_blocks * STEPS_PER_BLOCK, num_finished))
    evaluations = {key: report for stretch in stretches for key, report in stretch.evaluations.items()}
    late = {key for key in reading.indexed if step_of(key) <= num_finished} - evaluations.keys()
    evaluations |= reading.evaluations(late)
    # A block may hold evaluations from before a restart.
    current = [evaluations[key] for key in sorted(manifest_keys(run, evaluations))]
    by_sampling = sorted(current, key=lambda report: str(report["sampling"]), reverse=True)  # sample, then greedy
    return History(
        steps=tuple(step for stretch in stretches for step in stretch.steps),
        evaluations=tuple(sorted(by_sampling, key=lambda report: int(report["step"]))),
        errors=tuple(reading.errors),
    )


def has_checkpoint_files(store: ArtifactStore, step: StepView) -> bool:
    """Whether the step's checkpoints still have files: `troupe gc` removes old ones but not the record of the step."""
    folders = [each.folder for each in step.checkpoints.values()]
    return bool(folders) and all(any(store.list(f"{folder}/")) for folder in folders)


def extend_history(store: ArtifactStore, run: RunAddress, num_finished: int) -> None:
    """Write missing full blocks, the newest first. Harmless if another writer does the same."""
    existing = set(store.list(f"runs/{run.run_id}/history/"))
    missing = [block for block in range(num_finished // STEPS_PER_BLOCK) if block_key(run, block) not in existing]
    for block in missing[-_MAX_REBUILT_BLOCKS:]:
        reading = _Reading(store, run, _read_indexed(store, run))
        content = reading.stretch(*_steps_of(block))
        if reading.errors:
            _log.warning("%s is not written: %s", block_key(run, block), reading.errors[0])
            continue
        store.create(block_key(run, block), with_digest(content.model_dump(mode="json")))


def index_evaluation(store: ArtifactStore, key: StageKey) -> None:
    """Store the key of an evaluation's manifest, before the manifest is committed."""
    store.create(key.path.replace("/steps/", "/evaluations/", 1) + ".json", with_digest({}))


def name_evaluation(index_key: str) -> str:
    """The manifest of the evaluation with this entry in the run's index."""
    return index_key.replace("/evaluations/", "/steps/", 1).removesuffix(".json") + "/manifest.json"


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads one run; damaged records are noted in `errors` and skipped."""

    store: ArtifactStore
    run: RunAddress
    indexed: frozenset[str]
    """The manifest keys of indexed evaluations."""
    progress: Callable[[int], None] = lambda done: None
    errors: list[str] = field(default_factory=list)

    def block(self, block: int) -> HistoryBlock | None:
        """A block, or None if it is missing or damaged."""
        key = block_key(self.run, block)
        try:
            content = self.store.read(key)
            return None if content is None else read_as(key, content, HistoryBlock)
        except ArtifactCorrupt as error:
            _log.warning("%s; the records of its steps are read instead", error)
            return None

    def stretch(self, first: int, last: int) -> HistoryBlock:
        """Steps `first` to `last` and their evaluations, from their own records."""
        read = in_parallel(self._step, range(first, last + 1), done=lambda count: self.progress(first + count - 1))
        keys = [key for key in self.indexed if first <= step_of(key) <= last]
        return HistoryBlock(steps=tuple(step for step in read if step is not None), evaluations=self.evaluations(keys))

    def evaluations(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The committed reports of these manifests."""
        wanted = sorted(keys)
        found = zip(wanted, in_parallel(self._evaluation, wanted), strict=True)
        return {key: report for key, report in found if report is not None}

    def _step(self, step: int) -> StepView | None:
        """A finished step, or None."""
        try:
            record = read_step_record(self.store, self.run, step)
            if record is None:
                return None
        except ArtifactCorrupt as error:
            self.errors.append(str(error))
            return StepView(step=step, error=str(error))
        checkpoints = {
            policy: ShownCheckpoint(
                weights_digest=ref.weights_digest,
                optimizer_digest=ref.optimizer_digest,
                folder=ref.folder.key,
                parents=ref.parents,
            )
            for policy, ref in record.checkpoints.items()
        }
        return StepView(step=step, summary=record.summary, checkpoints=checkpoints)

    def _evaluation(self, key: str) -> dict[str, Any] | None:
        try:
            content = self.store.read(key)
            report = None if content is None else read_as(key, content, StageManifest).output
            if report is not None:
                _EVALUATION.validate_python(report)
        except ArtifactCorrupt as error:
            self.errors.append(str(error))
            return None
        except ValidationError:
            self.errors.append(str(make_damage_error(key, "no evaluation of this version of Troupe")))
            return None
        return None if report is None else {**report, "interval": list(report["interval"])}


def _read_indexed(store: ArtifactStore, run: RunAddress) -> frozenset[str]:
    return frozenset(manifest_keys(run, map(name_evaluation, store.list(f"runs/{run.run_id}/evaluations/"))))


def _steps_of(block: int) -> tuple[int, int]:
    return block * STEPS_PER_BLOCK, (block + 1) * STEPS_PER_BLOCK - 1


def block_key(run: RunAddress, block: int) -> str:
    """The key of a run's block of steps under its restarts."""
    first, last = _steps_of(block)
    steps = [step_record_key(run, step) for step in range(first, last + 1)]
    return f"runs/{run.run_id}/history/{block:06d}-{fingerprint(steps)}.json"
