"""One look at what a step has left in the store, in place of a question for each of its stages."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from components.artifacts.base import ArtifactStore
from components.artifacts.refs import StageManifest
from components.artifacts.stage import manifest_key
from components.identity import StageKey
from tasks.run import RunAddress
from tasks.session import Session
from tasks.step_records import stage_of, step_of


class Look:
    """The keys of a step's records at one moment. Whoever asks for a stage a second time, as a retry does, gets no answer."""

    def __init__(self, prefix: str, keys: frozenset[str]) -> None:
        self._prefix = prefix
        self._keys = keys
        self._asked: set[str] = set()

    @property
    def is_blank(self) -> bool:
        """Whether no stage of the step had begun. Evaluations are no part of one."""
        return all(stage_of(key) == "evaluate_policy" for key in self._keys)

    def seen_attempts(self, key: StageKey) -> int | None:
        """How many attempts the stage had, if it was seen to have no manifest. None says nothing."""
        if not key.path.startswith(self._prefix) or key.path in self._asked:
            return None
        self._asked.add(key.path)
        if manifest_key(key) in self._keys:
            return None
        return sum(other.startswith(f"{key.path}/attempts/") for other in self._keys)


_current: ContextVar[Look | None] = ContextVar("look", default=None)


@contextmanager
def one_look(store: ArtifactStore, run: RunAddress, step: int) -> Iterator[None]:
    """Inside, stages of this step that have no manifest at the start need not ask for it the first time.

    A rival who commits one meanwhile is met where it counts: the commit finds his and returns it.
    """
    prefix = f"runs/{run.run_id}/steps/{step:06d}/"
    token = _current.set(Look(prefix, frozenset(store.list(prefix))))
    try:
        yield
    finally:
        _current.reset(token)


def computed_here(session: Session, step: int) -> list[StageManifest] | None:
    """The stages of the step so far, if this session is known to have computed all of them, in the order of their keys.

    None says nothing: ask the store.
    """
    look = _current.get()
    if look is None or not look.is_blank or not session.computes_all:
        return None
    return [session.manifests[key] for key in sorted(session.manifests) if step_of(key) == step]


def seen_attempts(key: StageKey) -> int | None:
    """How many attempts the look under way, if any, shows of a stage that has no manifest."""
    look = _current.get()
    return None if look is None else look.seen_attempts(key)
