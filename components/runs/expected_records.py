"""What a run's records say must be in its store beside them, and which checkpoints garbage collection has removed."""

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from components.artifacts.base import ArtifactStore
from components.config import RetentionConfig
from components.identity import AGAINST_STARTS, EVALUATION, INTERACTIONS, PICTURE, config_key
from components.runs.lineages import lineage_for
from components.runs.retention import ROLLOUT_STAGES, Collected, Evaluated, expired_updates
from components.runs.run_survey import Survey, evaluation_manifest, stage_prefix, step_in
from components.runs.session_records import SessionEnd
from components.runs.step_records import stage_of, step_of, step_record_key
from components.runs.stored_records import Problem

UPDATE = "update_policy"
"""The stage that writes checkpoints, whose manifests garbage collection removes."""
_MIX = "coordinate_weights"
"""The stage that makes a population of them, whose manifests name them, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The update after which a record of a step names a checkpoint."""

    record: str
    step: int
    policy: str
    lineage: int
    folder: str

    @property
    def place(self) -> tuple[int, str, int]:
        """What tells its manifest from those of other updates."""
        return self.step, self.policy, self.lineage


def removed_updates(found: Survey) -> list[Update]:
    """The updates without a manifest that garbage collection may have removed: none of the newest, none that a restart begins
    with, and none that was evaluated if the run keeps all of these."""
    if found.address is None:
        return []
    there = _updates_there(found)
    missing = [update for update in _updates(found) if update.place not in there]
    made_up = {
        f"runs/{found.run_id}/steps/{each.step:06d}/{UPDATE}-v0/{each.policy}/l{each.lineage}-none/manifest.json": each
        for each in missing
    }
    expired = _expired(found, made_up)
    return [update for key, update in made_up.items() if key in expired]


def _expired(found: Survey, made_up: Iterable[str]) -> Set[str]:
    """Of manifests that are not there, those that garbage collection has recorded as removed; where its records are lost, or an
    older one made none, also those that it removes by a retention that the run has had."""
    assert found.address is not None, f"{found.run_id} has no address"
    evaluated = [Evaluated(step=step) for step in _evaluated_steps(found)] if _keeps_evaluated(found) else []
    wanted = set(made_up)
    recorded = {_place(key) for each in found.values.values() if isinstance(each, Collected) for key in each.manifests}
    gone = {key for key in wanted if _place(key) in recorded}
    for retention in _retentions(found):
        gone |= wanted & expired_updates(
            [*found.keys, *wanted],
            retention=lambda run_id, asked=retention: asked,  # type: ignore[misc]
            evaluations={found.run_id: evaluated},
            restarts={found.run_id: [each.from_step for each in found.address.lineages]},
            needed=found.needed,
        )
    return gone


def _place(key: str) -> tuple[str, int, str, str]:
    """What tells a manifest from those of other results, but for the version and the inputs of its stage."""
    parts = key.split("/")
    return stage_of(key), step_of(key), parts[5], parts[6].partition("-")[0]


def _retentions(found: Survey) -> list[RetentionConfig]:
    """What the run's sessions and configurations have asked to keep, each once; nothing where all removals are recorded and can
    be read."""
    are_recorded = bool(found.sessions) and found.sessions[0].records_collections
    if are_recorded and not any("/collected/" in each.key for each in found.problems):
        return []
    asked = [*(each.retention for each in found.sessions), found.config.retention if found.config else None]
    return list({each.model_dump_json(): each for each in asked if each is not None}.values()) or [RetentionConfig()]


def _removed_mixes(found: Survey) -> Set[int]:
    """The finished steps whose mix of checkpoints garbage collection may have removed."""
    if found.address is None:
        return set()
    there = {step_of(key) for key in found.current_manifests() if stage_of(key) == _MIX}
    named = {
        step for record, stages in found.stages.items() if _MIX in stages and (step := step_in(record)) is not None
    }
    made_up = {}
    for step in named - there:
        lineage = lineage_for(found.address.lineages, step, _MIX)
        made_up[f"runs/{found.run_id}/steps/{step:06d}/{_MIX}-v0/all/l{lineage}-none/manifest.json"] = step
    expired = _expired(found, made_up)
    return {step for key, step in made_up.items() if key in expired}


def missing_records(store: ArtifactStore, found: Survey, removed: Sequence[Update]) -> Iterator[Problem]:
    """The records that must exist and do not. `removed` are the updates that garbage collection has removed."""
    yield from _missing_in_rows(found)
    if found.address is None:
        return
    recorded = {
        step for key in found.keys if "/iterations/" in key and found.counts(key) and (step := step_in(key)) is not None
    }
    finished = max([*(step + 1 for step in recorded), *_evaluated_steps(found)], default=0)
    for step in sorted(set(range(finished)) - recorded):
        yield _missing(step_record_key(found.address, step), "what came after it shows that the step was finished")
    gone = sorted(_missing_results(found, recorded, removed))
    for step in sorted({step_of(key) for key in gone}):
        there = {result_of(key) for key in store.list(f"runs/{found.run_id}/steps/{step:06d}/") if is_manifest(key)}
        for key in gone:  # the listing may have been older than the record of the step
            if step_of(key) == step and result_of(key) not in there:
                yield _missing(key, "the step is finished, and this result of it is not there")


def _missing_in_rows(found: Survey) -> Iterator[Problem]:
    """The configuration, and the numbers that a row of records leaves out."""
    if config_key(found.run_id) not in found.keys:
        yield _missing(config_key(found.run_id), "the run has other records")
    for kind, ending in (("lineages", ".json"), ("sessions", "/start.json")):
        numbers = {key.split("/")[3].removesuffix(".json") for key in found.keys if key.split("/")[2] == kind}
        for number in range(1, max(map(int, numbers), default=0)):
            key = f"runs/{found.run_id}/{kind}/{number:0{len(max(numbers))}d}{ending}"
            if key not in found.keys:
                yield _missing(key, "a later one exists")


def _missing_results(found: Survey, recorded: Set[int], removed: Sequence[Update]) -> Iterator[str]:
    """The manifests that finished steps must have and the listing did not show."""
    there = {result_of(key) for key in found.current_manifests()}
    stages_there = {result[:2] for result in there}
    mixes = _removed_mixes(found)
    gone = {(update.step, UPDATE, update.policy) for update in removed} | {(step, _MIX, "all") for step in mixes}
    first_kept = _first_with_rollouts(found)
    steps_of_gone = {(update.step, UPDATE) for update in removed} | {(step, _MIX) for step in mixes}
    indexed = {stage_prefix(evaluation_manifest(key)) for key in _indexed(found) - found.shared.keys()}
    indexed = {prefix for prefix in indexed if _went_on(found, step_of(prefix))}
    begun = {stage_prefix(key) for key in found.keys if "/attempts/" in key and found.counts(key)}
    begun = {
        prefix
        for prefix in begun
        if stage_of(prefix) not in (EVALUATION, PICTURE, AGAINST_STARTS) and not _is_undrawn(found, prefix)
    }
    begun = {each for each in begun if step_of(each) in recorded or stage_of(each) == INTERACTIONS} | indexed
    begun = {each for each in begun if step_of(each) >= first_kept or stage_of(each) not in ROLLOUT_STAGES}
    yield from (f"{prefix}/manifest.json" for prefix in begun if result_of(prefix) not in there | gone)
    begun_stages = {result_of(prefix)[:2] for prefix in begun}
    for record, stages in found.stages.items():
        step = step_in(record)
        for stage in stages if found.counts(record) else ():
            is_expired = step is not None and step < first_kept and stage in ROLLOUT_STAGES
            if not is_expired and (step, stage) not in stages_there | begun_stages | steps_of_gone:
                yield f"runs/{found.run_id}/steps/{step:06d}/{stage}/manifest.json"


def result_of(key: str) -> tuple[int, str, str]:
    """The step, the stage and the part that a record below `steps/` is of."""
    return step_of(key), stage_of(key), (*key.split("/"), "")[5]


def is_manifest(key: str) -> bool:
    """Whether this is the key of a stage's manifest."""
    return key.endswith("/manifest.json")


def _updates(found: Survey) -> Iterator[Update]:
    """The updates that records of steps name."""
    for record, checkpoints in found.checkpoints.items():
        step = step_in(record)
        if step is None or "/iterations/" not in record or found.address is None:
            continue
        newest = int(record.rpartition("-l")[2].removesuffix(".json"))
        lineages = [each for each in found.address.lineages if each.lineage <= newest]
        for checkpoint in checkpoints:
            if checkpoint.step == step + 1:
                yield Update(
                    record=record,
                    step=step,
                    policy=checkpoint.policy,
                    lineage=lineage_for(lineages, step, UPDATE),
                    folder=checkpoint.folder,
                )


def _updates_there(found: Survey) -> set[tuple[int, str, int]]:
    """The places of the updates with a manifest."""
    own = f"runs/{found.run_id}/steps/"
    manifests = [key for key in found.keys if key.startswith(own) and is_manifest(key) and stage_of(key) == UPDATE]
    return {(step_of(key), key.split("/")[5], int(key.split("/")[6].split("-")[0][1:])) for key in manifests}


def _evaluated_steps(found: Survey) -> set[int]:
    """The steps at which the run was evaluated."""
    own = {key for key in found.current_manifests() if stage_of(key) == EVALUATION}
    return {step_of(key) for key in own | (_indexed(found) & found.shared.keys())}


def _indexed(found: Survey) -> set[str]:
    """The entries of the run's index of evaluations that count."""
    return {key for key in found.keys if f"runs/{found.run_id}/evaluations/" in key and found.counts(key)}


def _went_on(found: Survey, step: int) -> bool:
    """Whether the run went on after the evaluation of a step, or ended; a killed one leaves an entry without a result."""
    in_step = f"runs/{found.run_id}/steps/{step:06d}/"
    has_ended = any(key.endswith("/end.json") for key in found.keys)
    return has_ended or any(key.startswith(in_step) and stage_of(key) != EVALUATION for key in found.keys)


def _is_undrawn(found: Survey, prefix: str) -> bool:
    """Whether this is a drawing of interactions that need not have ended: not that after the last step of a session that has
    ended well."""
    if stage_of(prefix) != INTERACTIONS:
        return False
    ends = [found.values.get(f"runs/{found.run_id}/sessions/{each.number:04d}/end.json") for each in found.sessions]
    last_steps = {
        each.num_steps
        for each, end in zip(found.sessions, ends, strict=True)
        if isinstance(end, SessionEnd) and end.error is None
    }
    return step_of(prefix) not in last_steps


def _keeps_evaluated(found: Survey) -> bool:
    asked = next((each.retention for each in reversed(found.sessions)), None)
    own = asked or (found.config.retention if found.config else RetentionConfig())
    return own.evaluated == "all"


def _first_with_rollouts(found: Survey) -> int:
    """The first step whose rollouts garbage collection cannot have removed."""
    asked = [each.retention for each in found.sessions] + [found.config.retention if found.config else None]
    kept = [each.rollouts for each in asked if each is not None and each.rollouts is not None]
    return found.num_finished - min(kept) if kept else 0


def _missing(key: str, what: str) -> Problem:
    return Problem(key=key, state="missing", what=f"it is not in the store; {what}")
