"""References: the small frozen values that travel between stages instead of payloads."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A pydantic value at a border: immutable, unknown keys rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ArtifactRef(Frozen):
    """Where a payload lies and what its bytes must be. Reading verifies `sha256` and `num_bytes`.

    `kind` is the payload's type name (`"RolloutShard"`) or `"folder"`; `key` is its place in the store that holds it. For a
    folder `sha256` is the digest of its listing (`{path: [sha256, num_bytes]}` in canonical JSON) and `files` is that listing.
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
    not over files, so two files that hold equal weights are equal here.
    """

    policy: str
    step: int
    folder: ArtifactRef
    weights_digest: str
    optimizer_digest: str
    base: ArtifactRef | None = None
    """The folder of the model that the policy's adapter sits on; None for a policy with weights of its own."""


class StageManifest(Frozen):
    """The commit record of a stage. Its existence means that the output is whole.

    `output` is what the stage returned, as JSON: a reference or a few of them. `attempt` is the 1-based attempt that won.
    """

    stage: str
    key: str
    output: Any
    attempt: int
    seconds: float
    finished_at: str
    """UTC, ISO 8601."""
    record: str | None = None
    """Prefect's cache key for this output: a copy that is worth no more than this manifest."""
    kind: Literal["stage"] = "stage"
