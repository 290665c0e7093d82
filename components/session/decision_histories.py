"""The decision history of a hybrid run: an SQLite file under the home folder, made of what the store has and made anew from it.

Beside the file stands the list of the steps in it, each with the digest of its experience. Where the list and the run disagree,
as after a restart or in another store, the file is made anew.
"""

import json
import logging
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from components.artifacts.base import ArtifactStore
from components.artifacts.parallel import in_parallel
from components.artifacts.payloads import get
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.home import HOME, ensure_private
from components.hybrid.errors import DecisionConflict, HistoryCorrupt
from components.runs.run import CollectedStep, RunAddress
from components.runs.step_records import manifest_keys, read_manifest_at, stage_of, step_manifests, step_of
from components.session.session import Session

if TYPE_CHECKING:
    from components.hybrid.decision_history import DecisionHistory

COLLECT = "collect_experience"
_log = logging.getLogger(__name__)


def history_file(run_id: str, home: Path = HOME) -> Path:
    """Where the decisions of a run are, once there are some."""
    return home / "decisions" / run_id / "history.sqlite"


def open_history(store: ArtifactStore, run: RunAddress, home: Path = HOME) -> tuple["DecisionHistory", tuple[str, ...]]:
    """The decisions of all steps of a run, to read, and notes of what is gone: the file where it has them all, else in memory
    from the store. Nothing is written."""
    from components.hybrid.decision_history import DecisionHistory
    from components.hybrid.experience import Experience

    collected, file = collected_steps(store, run), history_file(run.run_id, home)
    if collected and _known(file, file.with_name("steps.json")) == [each.sha256 for each in collected.values()]:
        return DecisionHistory(file), ()
    history, notes = DecisionHistory(), []
    for step, ref in collected.items():
        try:
            history.record(get(store, ref, Experience).decisions)
        except (ArtifactCorrupt, ArtifactMissing) as error:
            notes.append(f"no decisions of step {step}: {error}")
    history.analyse()
    return history, tuple(notes)


def collected_steps(store: ArtifactStore, run: RunAddress) -> dict[int, ArtifactRef]:
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
    try:
        return _bring_up_to(session, step, file)
    except (HistoryCorrupt, DecisionConflict) as error:
        _log.warning("%s; it is made anew from the store", error)
        shutil.rmtree(file.parent)
        return _bring_up_to(session, step, file)


def _bring_up_to(session: Session, step: int, file: Path) -> int:
    listed = file.with_name("steps.json")
    known, ref = _known(file, listed), _experience(session, step)
    if len(known) not in (step, step + 1) or known[step:] not in ([], [ref.sha256]):
        shutil.rmtree(file.parent, ignore_errors=True)
        known = []
    ensure_private(file.parents[1])
    ensure_private(file.parent)
    num_added = 0
    for each in range(len(known), step + 1):
        found = ref if each == step else _experience(session, each)
        num_added += _add(session, file, found, each)
        known.append(found.sha256)
        listed.write_text(json.dumps(known), encoding="utf-8")
    return num_added


def _known(file: Path, listed: Path) -> list[str]:
    """The digests of the steps in the history; none where a part of it is missing or unreadable."""
    try:
        return [str(digest) for digest in json.loads(listed.read_text(encoding="utf-8"))] if file.is_file() else []
    except (OSError, ValueError):
        return []


def _experience(session: Session, step: int) -> ArtifactRef:
    """What the run's step has collected."""
    for manifest in step_manifests(session.store, session.run, step, session.manifests):
        if manifest.stage == COLLECT:
            return CollectedStep.model_validate(manifest.output).experience
    raise AssertionError(f"step {step} of {session.run.run_id} has collected nothing")


def _add(session: Session, file: Path, ref: ArtifactRef, step: int) -> int:
    from components.hybrid.decision_history import DecisionHistory
    from components.hybrid.experience import Experience

    try:
        experience = get(session.store, ref, Experience)
    except ArtifactMissing as error:
        _log.warning("the decisions of step %d of %s are gone: %s", step, session.run.run_id, error)
        return 0
    with DecisionHistory(file) as history:
        added = history.record(experience.decisions)
        history.analyse()
        return added
