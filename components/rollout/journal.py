"""Finished blocks of a shard, recorded as they come, so that an interrupted shard goes on where it stopped.

Blocks are fixed by the configuration, never by what was left over: a resumed shard runs the same batch shapes as an
uninterrupted one, and so the same floating-point results.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get, put
from components.artifacts.refs import ArtifactRef
from components.schema import ApiUsage, Episode, ToolRecord


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

    def block(self, index: int, play: Callable[[], FinishedBlock]) -> FinishedBlock:
        """Block `index`: the recorded one, or else that of `play`, recorded before this returns.

        When another writer records the block first, its block is returned.
        """
        recorded = self._recorded(index)
        if recorded is not None:
            return recorded
        played = play()
        ref = put(self._store, played)
        if self._store.create(self._key(index), ref.model_dump_json().encode()):
            return played
        recorded = self._recorded(index)
        assert recorded is not None, f"{self._key(index)} exists and cannot be read"
        return recorded

    def _recorded(self, index: int) -> FinishedBlock | None:
        content = self._store.read(self._key(index))
        if content is None:
            return None
        return get(self._store, ArtifactRef.model_validate_json(content), FinishedBlock)

    def _key(self, index: int) -> str:
        return f"{self._prefix}/blocks/{index:06d}.json"
