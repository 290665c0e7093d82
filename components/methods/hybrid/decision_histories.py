"""The decision history of a hybrid run: an SQLite file under the home folder, made of what the store has and made anew from it.

In the file stands the list of its steps, each with the digest of its experience; beside it its seal, the digest of the file as
it was left. Where list or seal do not fit, as after a restart, in another store or where the file was damaged, the store is
read, and the next step makes the file anew.
"""

import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from components.artifacts.base import ArtifactStore
from components.artifacts.layout import file_sha256
from components.artifacts.parallel import in_parallel
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef, StageManifest
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.hybrid.errors import (
    DecisionConflict,
    HistoryCorrupt,
    HistoryLocked,
    HistoryOfOtherVersion,
    HistoryUnusable,
)
from components.machine.home import HOME, ensure_private
from components.runs.run import CollectedStep, RunAddress
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of, step_manifests, step_of
from components.session.session import Session

if TYPE_CHECKING:
    from components.hybrid.decision_history import DecisionHistory

COLLECT = "collect_experience"
_UNREADABLE = (HistoryCorrupt, HistoryLocked, HistoryOfOtherVersion, HistoryUnusable)
_log = logging.getLogger(__name__)


def history_file(run_id: str, home: Path = HOME) -> Path:
    """Where the decisions of a run are, once there are some."""
    return home / "decisions" / run_id / "history.sqlite"


def open_history(store: ArtifactStore, run: RunAddress, home: Path = HOME) -> tuple["DecisionHistory", tuple[str, ...]]:
    """The decisions of all steps of a run, to read, and notes of what is gone: the file where it has them all, else in memory
    from the store. Nothing is written."""
    from components.hybrid.decision_history import DecisionHistory
    from components.hybrid.experience import Experience

    collected, file, notes = read_collected_steps(store, run), history_file(run.run_id, home), []
    if file.exists():
        whole = _whole_history(file, [each.sha256 for each in collected.values()])
        if whole is not None:
            return whole, ()
        notes.append(f"{file} is damaged, behind or of another run: decisions are read from the store")
    history = DecisionHistory()
    for step, ref in collected.items():
        try:
            history.record(get(store, ref, Experience).decisions)
        except (ArtifactCorrupt, ArtifactMissing) as error:
            notes.append(f"no decisions of step {step}: {error}")
    history.analyse()
    return history, tuple(notes)


def _whole_history(file: Path, digests: list[str]) -> "DecisionHistory | None":
    """The history in a file that is as it was left and has these steps alone; None of any other."""
    from components.hybrid.decision_history import DecisionHistory

    if not _is_sealed(file):
        return None
    try:
        history = DecisionHistory(file)
        if history.steps() == digests:
            return history
        history.close()
    except _UNREADABLE as error:
        _log.warning("%s", error)
    return None


def read_collected_steps(store: ArtifactStore, run: RunAddress) -> dict[int, ArtifactRef]:
    """What each step of a run has collected, by step, in their order."""
    keys = manifest_keys(run, store.list(f"runs/{run.run_id}/steps/"))
    found = in_parallel(
        lambda key: (step_of(key), read_manifest_at(store, key)), [key for key in keys if stage_of(key) == COLLECT]
    )
    return {
        step: CollectedStep.model_validate(each.output).experience for step, each in sorted(found, key=lambda of: of[0])
    }


def remove_history(run_id: str, home: Path = HOME) -> Path | None:
    """Remove the decision history of a run; the folder it was in, None without one. A run that is still in some store gets it
    back from there."""
    folder = history_file(run_id, home).parent
    if not folder.is_dir():
        return None
    shutil.rmtree(folder)
    return folder


def record_step(session: Session, step: int, home: Path = HOME) -> int:
    """The number of decisions added: those of this step, and of the steps before it where the history lacks them.

    One that is damaged, or has other decisions, is made anew. Raises the other errors of the history, which lose nothing: the
    store has all decisions.
    """
    file = history_file(session.run.run_id, home)
    if file.exists() and not _is_sealed(file):
        _log.warning("%s is not as it was left; Troupe makes it again from the store", file)
        shutil.rmtree(file.parent)
    try:
        return _bring_up_to(session, step, file)
    except (HistoryCorrupt, HistoryOfOtherVersion, DecisionConflict) as error:
        _log.warning("%s; Troupe makes it again from the store", error)
        shutil.rmtree(file.parent)
        return _bring_up_to(session, step, file)


def _bring_up_to(session: Session, step: int, file: Path) -> int:
    from components.hybrid.decision_history import DecisionHistory

    ref = find_experience(session.store, session.run, step, session.manifests)
    if file.exists():
        with DecisionHistory(file) as history:
            known = history.steps()
        if len(known) not in (step, step + 1) or known[step:] not in ([], [ref.sha256]):
            shutil.rmtree(file.parent)
    ensure_private(file.parents[1])
    ensure_private(file.parent)
    num_added = 0
    with DecisionHistory(file) as history:
        for each in range(len(history.steps()), step + 1):
            found = find_experience(session.store, session.run, each, session.manifests)
            num_added += _add(session, history, found, each)
    _seal(file).write_text(file_sha256(file), encoding="utf-8")
    return num_added


def _seal(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _is_sealed(file: Path) -> bool:
    """Whether a history is as it was left: its bytes have the digest beside it, and nothing waits to be written to it."""
    log = file.with_name(f"{file.name}-wal")
    try:
        return not (log.exists() and log.stat().st_size) and file_sha256(file) == _seal(file).read_text(
            encoding="utf-8"
        )
    except (OSError, ValueError):
        return False


def find_experience(
    store: ArtifactStore, run: RunAddress, step: int, known: Mapping[str, StageManifest] = MappingProxyType({})
) -> ArtifactRef:
    """What a step of a run has collected; `known` holds manifests by key that need not be read."""
    for manifest in step_manifests(store, run, step, known):
        if manifest.stage == COLLECT:
            return CollectedStep.model_validate(manifest.output).experience
    raise AssertionError(f"step {step} of {run.run_id} has collected nothing")


def _add(session: Session, history: "DecisionHistory", ref: ArtifactRef, step: int) -> int:
    from components.hybrid.experience import Experience

    try:
        decisions = get(session.store, ref, Experience).decisions
    except ArtifactMissing as error:
        _log.warning("the decisions of step %d of %s are gone: %s", step, session.run.run_id, error)
        decisions = ()
    return history.record_step(step, ref.sha256, decisions)
