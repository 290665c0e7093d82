"""The answers of tools during one stage, recorded as they come, so that a retry makes no call twice."""

import logging
from collections.abc import Iterator

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get, put
from components.artifacts.records import read_as, sealed
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.schema import ToolRecord

_log = logging.getLogger(__name__)


class ToolJournal:
    """The records under one key prefix. Each refers to a payload, is named by its content and never changes.

    The payload is written before the record, so a crash leaves garbage but no partial record. Two writers of one stage may
    both append; the first answer to a call in the order of the records' names counts.
    """

    def __init__(self, store: ArtifactStore, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    def records(self) -> Iterator[ToolRecord]:
        """All records so far, in the order of their names."""
        for key in self._store.list(f"{self._prefix}/tools/"):
            try:
                content = self._store.read(key)
                if content is not None:
                    yield get(self._store, read_as(key, content, ArtifactRef), ToolRecord)
            except (ArtifactCorrupt, ArtifactMissing) as error:
                # The journal only saves work: the calls are made again.
                _log.warning("%s: these tool calls are made again: %s", key, error)

    def append(self, record: ToolRecord) -> None:
        """Write `record`, which is durable when this returns."""
        ref = put(self._store, record)
        self._store.create(f"{self._prefix}/tools/{ref.sha256[:16]}.json", sealed(ref.model_dump(mode="json")))
