"""Identity of runs, stages and groups, and all seeds. The only module that spells keys.

Keys contain no uuid, time or Prefect id: equal work has an equal key on every attempt.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from components.errors import ConfigurationError

_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)
_RUN_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")


def check_run_id(run_id: str) -> str:
    """`run_id` itself. Raises ConfigurationError unless it is valid in every store and user interface."""
    if not _RUN_ID.fullmatch(run_id):
        raise ConfigurationError(
            f"run_id {run_id!r}: use 1 to 63 of a-z, 0-9, '.', '_' and '-', starting with a letter or a digit"
        )
    return run_id


def canonical_json(value: Any) -> bytes:
    """`value` as JSON with sorted keys, without spaces or NaN, so that equal values give equal bytes."""
    return _CANONICAL.encode(value).encode()


def fingerprint(value: Any) -> str:
    """The first 16 hex digits of the SHA-256 of `value` in canonical JSON."""
    return hashlib.sha256(canonical_json(value)).hexdigest()[:16]


def seed_for(seed: int, *parts: str | int) -> int:
    """A 63-bit seed that depends only on `seed` and `parts`.

    **Example** `seed_for(0, "rollout", 12, "plan_path-3f", 0, 1, "plan_agent", 5)`: step 12, one problem, episode 0,
    turn 1, the plan agent's candidate 5. Another candidate, step or config seed gives an unrelated number; the
    run_id is not among the parts and changes nothing.
    """
    digest = hashlib.blake2b(canonical_json([seed, *parts]), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class GroupKey:
    """One node of a sampling tree. Its candidates have identical prompt tokens and are compared.

    `repeat` counts earlier actions of the agent in the same turn: an agent that drafts, is criticised and drafts again has two
    nodes in one turn, with different seeds and groups. `branch` names the candidates below which a node hangs that is not the
    only one of its turn and agent: "2.5" is candidate 5 of the episode's third answer, "2.5/3.0" candidate 0 of the answer
    below it; "again" is a turn that is played anew, "again/2.5" a candidate there.
    """

    problem_id: str
    episode: int
    turn: int
    agent: str
    repeat: int = 0
    branch: str = ""

    @property
    def seed_parts(self) -> tuple[str | int, ...]:
        """The parts of `seed_for` for this node."""
        again = (self.repeat,) if self.repeat else ()
        below = (f"below {self.branch}",) if self.branch else ()
        return (self.problem_id, self.episode, self.turn, self.agent, *again, *below)

    def __str__(self) -> str:
        again = f"/{self.repeat}" if self.repeat else ""
        below = f" below {self.branch}" if self.branch else ""
        return f"{self.problem_id}/e{self.episode}/t{self.turn}/{self.agent}{again}{below}"


def name_branch(label: str, num_before: int, candidate: int) -> str:
    """The `branch` of the nodes below a candidate of the answer that `num_before` precede, in a line labelled `label`."""
    return f"{label}/{num_before}.{candidate}".lstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True)
class StageKey:
    """The key of one piece of work, equal on every attempt.

    `part` is a shard or a policy. `lineage` counts deliberate restarts from this stage or an earlier one. `depends_on` is the
    fingerprint of the configuration and the inputs that the result depends on.

    **Example** `StageKey(run_id="r7", step=12, stage="compute_rewards", version=1, part="shard-000", lineage=0,
    depends_on="9f2c…").path` is `runs/r7/steps/000012/compute_rewards-v1/shard-000/l0-9f2c…`.
    """

    run_id: str
    step: int
    stage: str
    version: int
    part: str
    lineage: int
    depends_on: str

    @property
    def path(self) -> str:
        """The prefix of the stage's manifest and attempts in the store."""
        return (
            f"runs/{self.run_id}/steps/{self.step:06d}/{self.stage}-v{self.version}"
            f"/{self.part}/l{self.lineage}-{self.depends_on}"
        )


def config_key(run_id: str, lineage: int = 0) -> str:
    """The store key of the frozen configuration of one lineage of a run."""
    return f"runs/{run_id}/config.json" if lineage == 0 else f"runs/{run_id}/lineages/{lineage:06d}.json"


def content_id(prefix: str, payload: Mapping[str, Any]) -> str:
    """`prefix-` and 12 hex digits of a digest of the content: equal puzzles have equal ids."""
    return f"{prefix}-{hashlib.sha256(canonical_json(payload)).hexdigest()[:12]}"
