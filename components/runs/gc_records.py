"""The records of a store as garbage collection reads them: what they keep, and which cannot be read."""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import count

from pydantic import ValidationError

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.parallel import in_parallel
from components.artifacts.records import first_complaint, make_damage_error, read_as, read_verified
from components.artifacts.refs import StageManifest
from components.config import RetentionConfig
from components.errors import ArtifactCorrupt
from components.runs.lineages import Lineage
from components.runs.retention import Evaluated, list_expired_rollouts, list_expired_updates
from components.runs.run import RunAddress
from components.runs.session_records import SESSION_START
from components.runs.shared_results import list_unused_results
from components.runs.step_records import RESULT, step_of, step_record_key
from components.stage_roles import Roles

_REFERENCE = re.compile(rb"payloads/[0-9a-f]{2}/[0-9a-f]{64}|folders/[0-9a-f]{64}")
_LINEAGE = re.compile(r"runs/([^/]+)/lineages/[^/]+")
_UNREAD = re.compile(r".*/attempts/[^/]+|runs/[^/]+/(outbox|sessions|flow_runs|history|dropped|collected)/.*|index/.*")
"""Records that keep no files and decide no retention."""
_STEP_RECORD = re.compile(r"runs/[^/]+/iterations/.*")
"""The record of a finished step names its checkpoint for good; it does not keep the files."""
_JOURNALLED = re.compile(r".*/(blocks|tools)/[^/]+")
"""They save work; an unreadable one is treated as missing."""
_RECORD = re.compile(r"runs/[^/]+/.*\.json")
_RUN = re.compile(r"runs/([^/]+)/.*")

_NIGHT = re.compile(r"nights/(?P<suite>[^/]+)/[^/]+\.json")
_CONTESTANT = re.compile(r"(?P<run>[^@=]+)@(?P<step>\d+)")

_LARGEST_RECORD_BYTES = 16 << 20


class Records:
    """The records of a store, read once, concurrently."""

    def __init__(self, store: ArtifactStore, found: Sequence[StoredObject]) -> None:
        newest = {_run(each.key): each for each in found if SESSION_START.fullmatch(each.key)}
        read = [*(each for each in found if not _UNREAD.fullmatch(each.key)), *newest.values()]
        self._contents = _read(store, read)
        # What was listed and cannot be found has been removed since, by another garbage collection.
        gone = {each.key for each in read if each.num_bytes <= _LARGEST_RECORD_BYTES} - self._contents.keys()
        self._found = [each for each in found if each.key not in gone]
        self._newest_sessions = {run: each.key for run, each in newest.items()}
        if self.damaged:
            # Any other record of these runs that names a file keeps it.
            of_damaged = [each for each in found if _run(each.key) in self.damaged and each.key not in self._contents]
            self._contents |= _read(store, of_damaged)

    @cached_property
    def damaged(self) -> dict[str, str]:
        """run_id -> its first unreadable record."""
        found: dict[str, str] = {}
        for key, content in self._contents.items():
            try:
                _check(key, content)
            except ArtifactCorrupt as error:
                found.setdefault(_run(key), str(error))
        return found

    def expired(self, *, keep_checkpoints: int | None, grace_seconds: float) -> list[StoredObject]:
        """The manifests of expired checkpoints, of runs without unreadable records."""
        restarts: dict[str, list[int]] = defaultdict(list)
        for key, content in self._contents.items():
            if (match := _LINEAGE.fullmatch(key)) and match[1] not in self.damaged:
                restarts[match[1]].append(int(read_verified(key, content)["from_step"]))
        keys = [each.key for each in self._found if _run(each.key) not in self.damaged]

        def retention(run_id: str) -> RetentionConfig:
            own = self._retention(run_id)
            return own if keep_checkpoints is None else own.model_copy(update={"newest": keep_checkpoints})

        expired = list_expired_updates(
            keys,
            retention=retention,
            evaluations=self._evaluations(keys),
            restarts=restarts,
            needed=self._list_needed_steps(keys),
            roles=self._roles,
        )
        return [each for each in self._found if each.key in expired and each.age_seconds >= grace_seconds]

    def list_expired_rollouts(self, *, grace_seconds: float) -> list[StoredObject]:
        """The records of expired rollouts, of runs without unreadable records. Attempts come first: one without its manifest
        would tell of a lost result."""
        keys = [each.key for each in self._found if _run(each.key) not in self.damaged]
        gone = list_expired_rollouts(
            keys, retention=self._retention, num_finished=self._num_finished, roles=self._roles
        )
        expired = [each for each in self._found if each.key in gone and each.age_seconds >= grace_seconds]
        return sorted(expired, key=lambda each: "/attempts/" not in each.key)

    def list_unused_shared(self, *, age_seconds: float) -> list[StoredObject]:
        """The records of shared results that no run uses; none while a record cannot be read."""
        return [] if self.damaged else list_unused_results(self._found, self._contents, age_seconds=age_seconds)

    def _roles(self, run_id: str) -> Roles:
        """Those that the run's newest session has recorded."""
        key = self._newest_sessions.get(run_id)
        return Roles() if key is None else _parse_roles(key, self._contents[key])

    def _num_finished(self, run_id: str) -> int:
        """The number of steps that are finished since the run's newest restart."""
        keys = {each.key for each in self._found if _run(each.key) == run_id}
        standing = [
            read_as(key, self._contents[key], Lineage)
            for key in sorted(keys)
            if _LINEAGE.fullmatch(key) and key.replace("/lineages/", "/dropped/") not in keys
        ]
        address = RunAddress(run_id=run_id, lineages=tuple(standing))
        return next(step for step in count() if step_record_key(address, step) not in keys)

    def _retention(self, run_id: str) -> RetentionConfig:
        """What the run's newest session asked for, else its newest configuration."""
        keys = sorted(key for key in self._contents if key.startswith(f"runs/{run_id}/lineages/"))
        for key in (self._newest_sessions.get(run_id), *reversed(keys), f"runs/{run_id}/config.json"):
            if key in self._contents and (found := _retention_in(key, self._contents[key])) is not None:
                return found
        return RetentionConfig()

    def _list_needed_steps(self, keys: Iterable[str]) -> dict[tuple[str, int], set[int]]:
        """(run_id, step) -> the steps before which policies must be known to go on after it."""
        found: dict[tuple[str, int], set[int]] = defaultdict(set)
        for key in keys:
            content = self._contents.get(key, b"") if key.endswith("/manifest.json") else b""
            if b'"needed_steps"' in content and isinstance(output := json.loads(content)["output"], dict):
                found[_run(key), step_of(key)].update(output.get("needed_steps", ()))
        return found

    def _evaluations(self, keys: Iterable[str]) -> dict[str, list[Evaluated]]:
        """run_id -> its evaluations, and those of nightly champions and challengers."""
        found: dict[str, list[Evaluated]] = defaultdict(list)
        for each in self._contestants():
            found[each["run"]].append(Evaluated(step=int(each["step"])))
        for key in keys:
            match = RESULT.fullmatch(key) if key.endswith("/manifest.json") else None
            if match and key in self._contents and self._roles(match["run"])[match["stage"]].writes == "evaluations":
                found[match["run"]].append(_read_evaluation(int(match["step"]), self._contents[key]))
        return found

    def _contestants(self) -> list[re.Match[str]]:
        """The champion of each nightly suite and its challengers on trial, after the newest night that can be read: they play
        on, so their checkpoints stay."""
        newest: dict[str, list[re.Match[str]]] = {}
        for key in sorted(self._contents):
            night = _NIGHT.fullmatch(key)
            if night is not None and (names := _contestants_after(key, self._contents[key])):
                newest[night["suite"]] = [found for name in names if (found := _CONTESTANT.fullmatch(name))]
        return [each for found in newest.values() for each in found]

    def references(self, *, without: Iterable[StoredObject] = ()) -> frozenset[str]:
        """The keys of payloads and folders that the other records keep."""
        gone = {each.key for each in without}
        return _references(
            content
            for key, content in self._contents.items()
            if key not in gone and (_run(key) in self.damaged or not _STEP_RECORD.fullmatch(key))
        )

    def references_in(self, records: Iterable[StoredObject]) -> frozenset[str]:
        """The keys of payloads and folders that these records name."""
        return _references(self._contents.get(each.key, b"") for each in records)


def _read(store: ArtifactStore, found: Iterable[StoredObject]) -> dict[str, bytes]:
    def read(key: str) -> bytes | None:
        try:
            return store.read(key)
        except ArtifactCorrupt:
            return b""  # no valid record either

    keys = [each.key for each in found if each.num_bytes <= _LARGEST_RECORD_BYTES]
    contents = zip(keys, in_parallel(read, keys), strict=True)
    return {key: content for key, content in contents if content is not None}


def _check(key: str, content: bytes) -> None:
    """Raise ArtifactCorrupt for an unreadable record that says what its run needs. Foreign files pass."""
    if not _RECORD.fullmatch(key) or _JOURNALLED.fullmatch(key):
        return
    if key.endswith("/manifest.json"):
        read_as(key, content, StageManifest)
    elif not isinstance(read_verified(key, content).get("from_step", 0), int):
        raise make_damage_error(key, "its from_step is not a number")
    elif SESSION_START.fullmatch(key) or key.endswith("/config.json"):
        _retention_in(key, content)
        _parse_roles(key, content)


def _retention_in(key: str, content: bytes) -> RetentionConfig | None:
    """The retention that a session or a configuration names; None for one without."""
    value = read_verified(key, content)
    found = (value.get("config", value) if "/lineages/" in key else value).get("retention")
    try:
        return None if found is None else RetentionConfig.model_validate(found)
    except ValidationError as error:
        raise make_damage_error(
            key, f"its retention is none of this version of Troupe ({first_complaint(error)})"
        ) from error


def _parse_roles(key: str, content: bytes) -> Roles:
    """The roles of stages that the start of a session names; none for another record."""
    try:
        return Roles.model_validate(read_verified(key, content).get("roles", {}))
    except ValidationError as error:
        raise make_damage_error(
            key, f"its roles are none of this version of Troupe ({first_complaint(error)})"
        ) from error


def _read_evaluation(step: int, manifest: bytes) -> Evaluated:
    """The evaluation with this manifest; without a rate if its output is no report."""
    report = json.loads(manifest)["output"]
    rate = report.get("success_rate") if isinstance(report, dict) else None
    if not isinstance(rate, int | float):
        return Evaluated(step=step)
    return Evaluated(step=step, what=(str(report["suite"]), str(report["sampling"])), success_rate=rate)


def _contestants_after(key: str, night: bytes) -> list[str]:
    """RUN@STEP of the champion after a night and of those on trial; none for a night without, or one that cannot be read."""
    try:
        after = read_verified(key, night)["night"]["after"]
        return [str(after["champion"]), *(str(each["challenger"]) for each in after["trials"])] if after else []
    except (ArtifactCorrupt, KeyError, TypeError):
        return []


def _references(contents: Iterable[bytes]) -> frozenset[str]:
    return frozenset(key.decode() for content in contents for key in _REFERENCE.findall(content))


def _run(key: str) -> str:
    """The run that a record belongs to, "" for none."""
    match = _RUN.fullmatch(key)
    return match[1] if match else ""
