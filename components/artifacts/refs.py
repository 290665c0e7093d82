"""References: small frozen values that stages pass to each other instead of payloads."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import SerializerFunctionWrapHandler, model_serializer

from components.frozen import Frozen


class ArtifactRef(Frozen):
    """The key of a payload in the store, and its digest and size, which reading verifies.

    `kind` is the payload's type name (`"RolloutShard"`) or `"folder"`. For a folder `files` is its listing, and
    `sha256` the digest of the listing (`{path: [sha256, num_bytes]}` in canonical JSON).
    """

    kind: str
    key: str
    sha256: str
    num_bytes: int
    schema_version: int = 1
    files: Mapping[str, tuple[str, int]] | None = None


class CheckpointRef(Frozen):
    """One policy after one step: its files and the digests of its tensors.

    `step` counts finished updates: 0 is the policy before training. Digests are over tensors (names, types, shapes, bytes),
    not over files, so files with equal weights have equal digests.
    """

    policy: str
    step: int
    folder: ArtifactRef
    weights_digest: str
    optimizer_digest: str
    base: ArtifactRef | None = None
    """The folder of the base model of the policy's adapter; None for a policy with full weights."""
    parents: tuple[str, ...] = ()
    """The weights digests of the checkpoints that this one was mixed from; empty for one that an update left."""

    @model_serializer(mode="wrap")
    def _without_no_parents(self, dumped: SerializerFunctionWrapHandler) -> dict[str, Any]:
        values: dict[str, Any] = dumped(self)
        return values if self.parents else {name: value for name, value in values.items() if name != "parents"}


class StageManifest(Frozen):
    """The commit record of a stage. If it exists, the output is complete.

    `output` is the stage's result as JSON: one or a few references. `attempt` is the 1-based attempt that committed.
    """

    stage: str
    key: str
    output: Any
    attempt: int
    seconds: float
    finished_at: str
    """UTC, ISO 8601."""
    kind: Literal["stage"] = "stage"


def references_in(output: Any) -> Iterator[ArtifactRef]:
    """The references anywhere in a stage's output."""
    if isinstance(output, dict):
        if output.keys() >= {"kind", "key", "sha256", "num_bytes"}:
            yield ArtifactRef.model_validate(output)
            return
        output = list(output.values())
    if isinstance(output, list):
        for inner in output:
            yield from references_in(inner)
