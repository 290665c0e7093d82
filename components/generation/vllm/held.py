"""What a vLLM server says it holds, spelled in its weight version, and what a policy needs it to hold.

A server names its weight version with every answer, span by span of the tokens, so that each candidate proves which weights
it came from. A server that was started anew calls its version "default", which names nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from components.bounded_json import bounded_json
from components.identity import canonical_json


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Digests: of the full weights, None when they are not known, and of each policy whose adapter lies on them."""

    weights: str | None = None
    adapters: Mapping[str, str] = field(default_factory=dict)

    def spelled(self) -> str:
        """As a server's weight version."""
        return canonical_json({"weights": self.weights, "adapters": dict(self.adapters)}).decode()

    def with_adapter(self, policy: str, digest: str | None) -> "Held":
        """The same with another adapter of `policy`, or with none."""
        others = {name: known for name, known in self.adapters.items() if name != policy}
        return Held(weights=self.weights, adapters=others if digest is None else {**others, policy: digest})


@lru_cache(maxsize=256)
def held_from(spelled: str) -> Held:
    """What a weight version says; nothing, where somebody else wrote it."""
    try:
        values = bounded_json(spelled)
        return Held(weights=values["weights"], adapters=dict(values["adapters"]))
    except (ValueError, KeyError, TypeError):
        return Held()


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How one version of a policy is asked for, and the folders from which a server takes it.

    `weights` is the digest of the full weights in `folder`, `digest` that of the policy: another one with an `adapter`.

    **Example** a policy "plan" with an adapter: model "plan@1f0c…", weights "9b…", digest "1f0c…".
    """

    model: str
    policy: str
    weights: str
    digest: str
    folder: Path
    adapter: Path | None = None

    def is_held_by(self, held: Held) -> bool:
        """Whether a server that holds `held` answers from this version."""
        return held.weights == self.weights and (self.adapter is None or held.adapters.get(self.policy) == self.digest)


def adapter_name(policy: str, digest: str) -> str:
    """The name under which an adapter is served: one per version, so that a request never meets another."""
    return f"{policy}@{digest[:16]}"
