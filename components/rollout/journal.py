"""Finished blocks of a shard, recorded as they come, so that an interrupted shard goes on where it stopped.

Blocks are fixed by the configuration, never by what was left over: a resumed shard runs the same batch shapes as an
uninterrupted one, and so the same floating-point results.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get, put
from components.artifacts.records import read_as, sealed
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.schema import ApiUsage, Episode, ToolRecord

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBlock:
    """The episodes of one block, what tools told them and what APIs were used for, as stored."""

    episodes: tuple[Episode, ...]
    tools: ToolRecord = field(default_factory=ToolRecord)
    api_usage: Mapping[str, ApiUsage] = field(default_factory=dict)


class Journal:
    """The blocks under one key prefix: `<prefix>/blocks/000000.json` refers to the first block's payload.

    The payload is written before the record and the record at most once, so a crash leaves garbage, never half a block.
    """

    def __init__(self, store: ArtifactStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix
        self._damaged: set[str] = set()

    @property
    def num_damaged(self) -> int:
        """Recorded blocks that could not be read."""
        return len(self._damaged)

    def block(self, index: int, play: Callable[[], FinishedBlock]) -> FinishedBlock:
        """Block `index`: the recorded one, or else that of `play`, recorded before this returns.

        When another writer records the block first, its block is returned. A block that is damaged or gone is played again:
        it only spares work. `num_damaged` counts these.
        """
        recorded = self._recorded(index)
        if recorded is not None:
            return recorded
        played = play()
        ref = put(self._store, played)
        if self._store.create(self._key(index), sealed(ref.model_dump(mode="json"))):
            return played
        return self._recorded(index) or played

    def _recorded(self, index: int) -> FinishedBlock | None:
        key = self._key(index)
        try:
            content = self._store.read(key)
            return None if content is None else get(self._store, read_as(key, content, ArtifactRef), FinishedBlock)
        except (ArtifactCorrupt, ArtifactMissing) as error:
            if key not in self._damaged:
                _log.warning("%s: this finished block is played again: %s", key, error)
            self._damaged.add(key)
            return None

    def _key(self, index: int) -> str:
        return f"{self._prefix}/blocks/{index:06d}.json"
