"""What a vLLM server holds, as JSON in its weight version, and what a policy needs it to hold.

A server reports its weight version with every answer, for each span of tokens, so each candidate proves which weights
it came from. A restarted server reports "default", which proves nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from components.text.bounded_json import parse_bounded_json


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedWeights:
    """Digests of the full weights (None if unknown) and of each loaded adapter, by the name under which it is served."""

    weights: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)


@lru_cache(maxsize=256)
def parse_loaded_weights(spelled: str) -> LoadedWeights:
    """The parsed weight version; empty LoadedWeights if it is not one of ours."""
    try:
        values = parse_bounded_json(spelled)
        return LoadedWeights(weights=values["weights"], adapters=dict(values["adapters"]))
    except (ValueError, KeyError, TypeError):
        return LoadedWeights()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVersion:
    """The model name under which one version of a policy is requested, and the folders that a server loads it from.

    `weights` is the digest of the full weights in `folder`, `digest` that of the policy: different with an `adapter`.

    **Example** a policy "plan" with an adapter: model "plan@1f0c…", weights "9b…", digest "1f0c…".
    """

    model: str
    weights: str
    digest: str
    folder: Path
    adapter: Path | None = None

    def is_held_by(self, held: LoadedWeights) -> bool:
        """Whether a server that holds `held` answers from this version."""
        return held.weights == self.weights and (self.adapter is None or held.adapters.get(self.model) == self.digest)
