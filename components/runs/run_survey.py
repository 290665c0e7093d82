"""All records of a run, read once: which of them still count, and which must exist beside them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from components.artifacts.base import ArtifactStore
from components.artifacts.parallel import in_parallel
from components.config import RunConfig
from components.identity import config_key
from components.runs.history import block_key
from components.runs.initial_checkpoints import initial_key
from components.runs.lineages import Lineage, index_key
from components.runs.retention import FEWEST_KEPT, Collected
from components.runs.run import SHARED, RunAddress
from components.runs.session_records import SessionEnd, SessionStart, end_key, standing_lineages
from components.runs.step_records import is_current, stage_of, step_of, step_record_key
from components.runs.steps import first_unfinished_step
from components.runs.stored_records import Problem, RecordFacts, is_record, read_facts
from components.stage_roles import Roles

_NUM_PARTS = 7
"""Of the key of a result: `runs/<run>/steps/<step>/<stage>/<part>/<lineage>`."""


@dataclass(kw_only=True)
class Survey:
    """A run's records, about two kilobytes for each. What follows from them is asked once all are read."""

    run_id: str
    keys: set[str]
    """Of the run's records and of the shared ones that they name."""
    facts: dict[str, RecordFacts] = field(default_factory=dict)
    address: RunAddress | None = None
    """None if a restart cannot be read: then nobody knows which records count."""
    num_finished: int = 0

    @cached_property
    def sessions(self) -> list[SessionStart]:
        """The readable starts of sessions, oldest first."""
        return [each.value for _, each in sorted(self.facts.items()) if isinstance(each.value, SessionStart)]

    @cached_property
    def roles(self) -> Roles:
        """Those that the newest readable session has recorded."""
        return next((each.roles for each in reversed(self.sessions)), Roles())

    @cached_property
    def last_steps(self) -> set[int]:
        """The numbers of steps of the sessions that ended well."""
        ends = {each.number: self.facts.get(end_key(self.run_id, each.number)) for each in self.sessions}
        well = {
            number for number, end in ends.items() if end and isinstance(end.value, SessionEnd) and not end.value.error
        }
        return {each.num_steps for each in self.sessions if each.number in well}

    @cached_property
    def collected(self) -> frozenset[str] | None:
        """The manifests that `troupe gc` has removed; None where its records are lost, or an older one made none."""
        records = [each for key, each in self.facts.items() if "/collected/" in key]
        is_recorded = bool(self.sessions) and self.sessions[0].records_collections
        if not is_recorded or any(each.problem for each in records):
            return None
        values = [each.value for each in records if isinstance(each.value, Collected)]
        return frozenset(key for value in values for key in value.manifests)

    def counts(self, key: str) -> bool:
        """Whether the run still depends on this record: no restart has replaced it. True if the restarts are unknown."""
        kind = key.split("/")[2] if key.startswith(f"runs/{self.run_id}/") else ""
        if kind == "lineages":
            return key.replace("/lineages/", "/dropped/") not in self.keys
        if self.address is None:
            return True
        if kind == "steps":
            return is_current(self.address, name_manifest(key))
        if kind == "evaluations":
            return is_current(self.address, evaluation_manifest(key))
        if kind == "iterations":
            return key == step_record_key(self.address, step_in(key))
        return kind != "history" or key == block_key(self.address, step_in(key))

    def of_kind(self, kind: str) -> Iterator[str]:
        """The keys of the run's own records of a kind that count."""
        return (key for key in self.keys if key.startswith(f"runs/{self.run_id}/{kind}/") and self.counts(key))


def survey(store: ArtifactStore, run_id: str, done: Callable[[int], None]) -> Survey:
    """All records of a run, and the shared ones that it uses. `done` gets the number read so far. Raises StoreUnavailable."""
    found = Survey(run_id=run_id, keys={*filter(is_record, store.list(f"runs/{run_id}/")), index_key(run_id)})
    evaluations = {evaluation_manifest(key) for key in found.keys if f"runs/{run_id}/evaluations/" in key}

    def read(keys: Iterable[str]) -> None:
        before = len(found.facts)
        for each in in_parallel(
            lambda key: read_facts(store, key, is_evaluation=key in evaluations),
            sorted(keys),
            done=lambda count: done(before + count),
        ):
            found.facts[each.key] = each

    read(found.keys)
    keys = sorted(found.of_kind("lineages"))
    lineages = [value for key in keys if isinstance(value := found.facts[key].value, Lineage)]
    if len(lineages) == len(keys):
        address = RunAddress(run_id=run_id, lineages=standing_lineages(store, run_id, tuple(lineages)))
        found.address, found.num_finished = address, first_unfinished_step(store, address)
    evaluations = {key.replace(f"runs/{run_id}/", f"runs/{SHARED}/", 1) for key in evaluations - found.keys}
    shared = evaluations & set(store.list(f"runs/{SHARED}/steps/")) if evaluations else set()
    shared |= {manifest for each in found.facts.values() for manifest in each.shared}
    found.keys |= shared
    read(shared)
    return found


def find_missing_records(found: Survey) -> Iterator[Problem]:
    """The records that must exist and do not, with what `troupe gc` has removed.

    An attempt tells of a manifest, an entry of the index of an evaluation, a later record of the earlier ones.
    """
    if config_key(found.run_id) not in found.keys:
        yield report_missing(config_key(found.run_id), "the run has other records")
    for kind, ending in (("lineages", ".json"), ("sessions", "/start.json")):
        numbers = {
            key.split("/")[3].removesuffix(".json")
            for key in found.keys
            if key.startswith(f"runs/{found.run_id}/{kind}/")
        }
        for number in range(1, max(map(int, numbers), default=0)):
            key = f"runs/{found.run_id}/{kind}/{number:0{len(max(numbers))}d}{ending}"
            if key not in found.keys:
                yield report_missing(key, "a later one exists")
    if found.address is not None:
        yield from _find_missing_results(found, found.address)


def _find_missing_results(found: Survey, address: RunAddress) -> Iterator[Problem]:
    records_policies = bool(found.sessions) and bool(found.sessions[0].roles.stages)
    if records_policies and any(found.of_kind("steps")) and not any(found.of_kind("initial")):
        yield report_missing(initial_key(found.run_id, 0), "the run has results")
    recorded = set(map(step_in, found.of_kind("iterations")))
    evaluations = set(_list_evaluations(found))
    finished = max([*(step + 1 for step in recorded), *map(step_of, evaluations & found.keys)], default=0)
    for step in sorted({*range(finished)} - recorded):
        yield report_missing(step_record_key(address, step), "what came after it shows that the step was finished")
    there = {_parse_result(key) for key in found.of_kind("steps") if is_manifest(key)}
    begun = {
        name_manifest(key) for key in found.of_kind("steps") if "/attempts/" in key and _must_end(found, key, recorded)
    }
    begun |= {key for key in evaluations - found.keys if _went_on(found, key)}
    for key in sorted(key for key in begun if _parse_result(key) not in there):
        yield report_missing(key, "the step is finished, and this result of it is not there")


def is_collected(found: Survey, key: str) -> bool:
    """Whether `troupe gc` has removed this manifest: by its records, or as one that it may have where they are not known."""
    if found.roles[stage_of(key)].expires_with != "checkpoints":
        return False
    return step_of(key) < found.num_finished - FEWEST_KEPT if found.collected is None else key in found.collected


def report_missing(key: str, what: str) -> Problem:
    """The problem of a record that must exist."""
    return Problem(key=key, state="missing", what=f"it is not in the store; {what}")


def name_manifest(key: str) -> str:
    """The manifest of the result that a record below `steps/` belongs to."""
    return "/".join([*key.split("/")[:_NUM_PARTS], "manifest.json"])


def is_manifest(key: str) -> bool:
    """Whether this is the key of a stage's manifest."""
    return key.endswith("/manifest.json")


def evaluation_manifest(index_key: str) -> str:
    """The manifest of the evaluation with this entry in the run's index."""
    return index_key.replace("/evaluations/", "/steps/", 1).removesuffix(".json") + "/manifest.json"


def step_in(key: str) -> int:
    """The number of the step, or of the block of steps, that a record has in its name."""
    return int(key.split("/")[3].split("-")[0])


def _parse_result(key: str) -> tuple[int, str, str]:
    """The step, the stage and the part that a record below `steps/` is of."""
    return step_of(key), stage_of(key), key.split("/")[5]


def _list_evaluations(found: Survey) -> Iterator[str]:
    """The manifests of the evaluations in the run's index, its own or those that it shares."""
    for entry in found.of_kind("evaluations"):
        own = evaluation_manifest(entry)
        shared = own.replace(f"runs/{found.run_id}/", f"runs/{SHARED}/", 1)
        yield next(iter(found.facts[entry].shared), shared if shared in found.keys and own not in found.keys else own)


def _must_end(found: Survey, attempt: str, recorded: set[int]) -> bool:
    """Whether what was begun must have ended: its step is finished, and its results have not expired. What a step may lack is
    made after the last step of a session that ended well."""
    role, step = found.roles[stage_of(attempt)], step_of(attempt)
    if not role.optional:
        return step in recorded and not _has_expired(found, attempt)
    return role.writes == "interactions" and step in found.last_steps


def _has_expired(found: Survey, key: str) -> bool:
    """Whether a result is of rollouts that `troupe gc` may have removed."""
    if found.roles[stage_of(key)].expires_with != "rollouts":
        return False
    config = found.facts[config_key(found.run_id)].value if config_key(found.run_id) in found.facts else None
    asked = [each.retention for each in found.sessions] + [config.retention if isinstance(config, RunConfig) else None]
    kept = [each.rollouts for each in asked if each is not None and each.rollouts is not None]
    return bool(kept) and step_of(key) < found.num_finished - min(kept)


def _went_on(found: Survey, evaluation: str) -> bool:
    """Whether the run went on after an evaluation, or ended; a killed one leaves an entry without a result."""
    in_step = (key for key in found.of_kind("steps") if step_of(key) == step_of(evaluation))
    has_ended = any(key.endswith("/end.json") for key in found.keys)
    return has_ended or any(not found.roles[stage_of(key)].optional for key in in_step)
