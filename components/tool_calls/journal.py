"""The answers of tools during one stage, recorded as they come, so that a retry makes no call twice."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get, put
from components.artifacts.records import read_as, with_digest
from components.artifacts.refs import ArtifactRef
from components.errors import ArtifactCorrupt, ArtifactMissing
from components.schema import ToolRecord

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ToolJournal:
    """The records under one key prefix. Each refers to a payload, is named by its content and never changes.

    The payload is written before the record, so a crash leaves garbage but no partial record. Two writers of one stage may
    both append; the first answer to a call in the order of the records' names counts.
    """

    store: ArtifactStore
    prefix: str

    def records(self) -> Iterator[ToolRecord]:
        """All records so far, in the order of their names."""
        for key in self.store.list(f"{self.prefix}/tools/"):
            try:
                content = self.store.read(key)
                if content is not None:
                    yield get(self.store, read_as(key, content, ArtifactRef), ToolRecord)
            except (ArtifactCorrupt, ArtifactMissing) as error:
                # The journal only saves work: the calls are made again.
                _log.warning("%s: these tool calls are made again: %s", key, error)

    def append(self, record: ToolRecord) -> None:
        """Write `record`, which is durable when this returns."""
        ref = put(self.store, record)
        self.store.create(f"{self.prefix}/tools/{ref.sha256[:16]}.json", with_digest(ref.model_dump(mode="json")))
