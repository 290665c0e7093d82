"""One listing of a step's records, in place of one request per stage."""

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
    """The keys of a step's records at one moment. It answers once per stage, so that a retry asks the store."""

    def __init__(self, prefix: str, keys: frozenset[str]) -> None:
        self._prefix = prefix
        self._keys = keys
        self._asked: set[str] = set()

    @property
    def is_blank(self) -> bool:
        """Whether no stage of the step had started. Evaluations do not count."""
        return all(stage_of(key) == "evaluate_policy" for key in self._keys)

    def seen_attempts(self, key: StageKey) -> int | None:
        """The number of attempts, if the stage had no manifest. None if unknown."""
        if not key.path.startswith(self._prefix) or key.path in self._asked:
            return None
        self._asked.add(key.path)
        if manifest_key(key) in self._keys:
            return None
        return sum(other.startswith(f"{key.path}/attempts/") for other in self._keys)


_current: ContextVar[Look | None] = ContextVar("look", default=None)


@contextmanager
def one_look(store: ArtifactStore, run: RunAddress, step: int) -> Iterator[None]:
    """Within the block, stages of this step without a manifest at its start skip their first request for one.

    If another process commits a stage meanwhile, this process finds out at its own commit.
    """
    prefix = f"runs/{run.run_id}/steps/{step:06d}/"
    token = _current.set(Look(prefix, frozenset(store.list(prefix))))
    try:
        yield
    finally:
        _current.reset(token)


def computed_here(session: Session, step: int) -> list[StageManifest] | None:
    """The step's committed stages in the order of their keys, if this session is known to have computed all of them.

    None if unknown: ask the store.
    """
    look = _current.get()
    if look is None or not look.is_blank or not session.computes_all:
        return None
    return [session.manifests[key] for key in sorted(session.manifests) if step_of(key) == step]


def seen_attempts(key: StageKey) -> int | None:
    """The current look's number of attempts of a stage without a manifest; None if unknown."""
    look = _current.get()
    return None if look is None else look.seen_attempts(key)
