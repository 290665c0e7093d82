"""One look at a step's records, in place of one request per stage; taken ahead, no iteration waits for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import CheckpointRef, StageManifest
from components.identity import StageKey
from components.runs.run import RunAddress
from components.runs.stage_protocol import manifest_key
from components.runs.step_records import stage_of, step_of
from components.runs.steps import read_finished_step
from components.session.session import Session
from components.stage_roles import Roles


class StepSnapshot:
    """A step's records at one moment. It answers once per stage, so that a retry asks the store."""

    def __init__(self, store: ArtifactStore, run: RunAddress, step: int, roles: Roles) -> None:
        """Two requests. Raises ArtifactCorrupt if the step's final record is damaged."""
        self.step = step
        self.finished: dict[str, CheckpointRef] | None = read_finished_step(store, run, step)
        """The checkpoints after the step, if it was finished."""
        self._prefix = f"runs/{run.run_id}/steps/{step:06d}/"
        self._keys = frozenset(store.list(self._prefix)) if self.finished is None else frozenset()
        self._asked: set[str] = set()
        self._roles = roles

    @property
    def is_blank(self) -> bool:
        """Whether no stage of the step had started. What a step may lack does not count."""
        return all(self._roles[stage_of(key)].optional for key in self._keys)

    def read_attempts_so_far(self, key: StageKey) -> int | None:
        """The number of attempts, if the stage had no manifest. None if unknown."""
        if not key.path.startswith(self._prefix) or key.path in self._asked:
            return None
        self._asked.add(key.path)
        if manifest_key(key) in self._keys:
            return None
        return sum(other.startswith(f"{key.path}/attempts/") for other in self._keys)

    @contextmanager
    def use_here(self) -> Iterator[None]:
        """Within the block, stages of this step without a manifest skip their first request for one.

        If another process commits a stage meanwhile, this process finds out at its own commit.
        """
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[StepSnapshot | None] = ContextVar("look", default=None)


def snapshot_of(session: Session, step: int) -> StepSnapshot:
    """A look at the step: the one taken ahead if it succeeded, else a new one."""
    ahead, session.prefetch = session.prefetch, None
    look: StepSnapshot | None = None if ahead is None or ahead.exception() is not None else ahead.result()
    return (
        look
        if look is not None and look.step == step
        else StepSnapshot(session.store, session.run, step, session.roles)
    )


def prefetch_snapshot(session: Session, step: int) -> None:
    """Look at the step in the background, for the next `snapshot_of`. Only while no stage of the step is under way."""
    session.prefetch = session.looking.submit(
        copy_context().run, StepSnapshot, session.store, session.run, step, session.roles
    )


def locally_computed_stages(session: Session, step: int) -> list[StageManifest] | None:
    """The step's committed stages in the order of their keys, if this session is known to have computed all of them.

    None if unknown: ask the store.
    """
    look = _current.get()
    if look is None or not look.is_blank or not session.computes_all:
        return None
    return [session.manifests[key] for key in sorted(session.manifests) if step_of(key) == step]


def list_own_stages(session: Session, step: int) -> list[StageManifest] | None:
    """Those of the locally computed stages that a step may not lack; None if unknown."""
    stages = locally_computed_stages(session, step)
    return None if stages is None else [each for each in stages if not session.roles[each.stage].optional]


def read_attempts_so_far(key: StageKey) -> int | None:
    """The current look's number of attempts of a stage without a manifest; None if unknown."""
    look = _current.get()
    return None if look is None else look.read_attempts_so_far(key)
