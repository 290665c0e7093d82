"""Finished blocks of a shard, recorded one by one, so that an interrupted shard resumes after the last one.

Blocks are fixed by the configuration, never by what is left to do: a resumed shard runs the same batch shapes as an
uninterrupted one, and so gets the same floating-point results.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get, put
from components.artifacts.records import read_as, with_digest
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.schema import ApiUsage, Episode, ToolRecord

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedBlock:
    """The episodes of one block, the answers of the tools, and the usage of APIs, as stored."""

    episodes: tuple[Episode, ...]
    tools: ToolRecord = field(default_factory=ToolRecord)
    api_usage: Mapping[str, ApiUsage] = field(default_factory=dict)


class Journal:
    """The blocks under one key prefix: `<prefix>/blocks/000000.json` refers to the first block's payload.

    The payload is written before the record, and the record at most once, so a crash leaves garbage but no partial block.
    """

    def __init__(self, store: ArtifactStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def block(self, index: int, play: Callable[[], FinishedBlock]) -> FinishedBlock:
        """The recorded block `index`, or else the block of `play`, recorded before this returns.

        If another writer records the block first, its block is returned. A damaged or missing block is played again, with a
        warning: the journal only saves work.
        """
        key = f"{self._prefix}/blocks/{index:06d}.json"
        try:
            if recorded := self._read_block(key):
                return recorded
        except (ArtifactCorrupt, ArtifactMissing) as error:
            _log.warning("%s: this block cannot be read and is played again: %s", key, error)
        played = play()
        ref = put(self._store, played)
        if not self._store.create(key, with_digest(ref.model_dump(mode="json"))):
            with suppress(ArtifactCorrupt, ArtifactMissing):
                return self._read_block(key) or played
        return played

    def _read_block(self, key: str) -> FinishedBlock | None:
        content = self._store.read(key)
        return None if content is None else get(self._store, read_as(key, content, ArtifactRef), FinishedBlock)
