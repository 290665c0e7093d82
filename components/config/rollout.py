"""The sections `rollout` and `evaluation`: which problems are played, and how their answers are sampled."""

from math import prod
from typing import Literal

from pydantic import Field, model_validator

from components.frozen import Settings

MAX_LEAVES = 256
"""The most episodes in which a nested tree may end."""


class RolloutConfig(Settings):
    overlap: Literal["none", "one_step"] = "none"
    """one_step: play step k + 1 during the update of step k, with the weights before it. Needs loss.importance_cap."""
    mode: Literal["tree", "nested", "independent", "single"] = "tree"
    """tree: AT-GRPO. nested: C3; one turn per problem is played anew, where all candidates go on, valued by the episodes below.
    independent: group_size whole episodes per problem. single: the last agent plays alone."""
    num_problems: int = Field(32, ge=1)
    """Problems per step; for teams of chat models 8 unless given."""
    group_size: int = Field(8, ge=2)
    """Candidates compared at a node; at least 2, because one has no learning signal."""
    branching: tuple[int, ...] | None = None
    """Mode nested: how many candidates each agent of the expanded turn has below each candidate of the agent before it; [2, 4]
    ends in 8 episodes. None: 2 for each agent but the last, which has as many as reach group_size episodes."""
    temperature: float = Field(1.0, ge=0.01, le=100.0)
    """Of all agents without their own."""
    num_shards: int = Field(1, ge=1)
    """Independent tasks per step. Affects results, because it decides which problems are played together, and so batch
    shapes."""
    problems_per_block: int = Field(32, ge=1)
    """Problems that are played and journalled together. Affects results, because it decides batch shapes."""
    random_handoff_probability: float = Field(0.0, ge=0.0, le=1.0)
    """How often a random candidate is continued from instead of the best, so that later agents see bad proposals too. For all
    agents but the last, which always continues from its best."""
    max_failed_fraction: float = Field(0.0, ge=0.0, le=1.0)
    """The share of a shard's episodes that may fail before the stage raises; those that the sandbox ended count against
    `rewards.max_failed_fraction`."""
    max_resamples: int = Field(0, ge=0)
    """Dynamic sampling (DAPO, arXiv 2503.14476): how often a shard replaces problems whose groups all lack a signal.
    Problems still without signal are excluded and counted; this is not an error."""

    @model_validator(mode="after")
    def _consistent(self) -> "RolloutConfig":
        if self.num_shards > self.num_problems:
            raise ValueError(f"num_shards {self.num_shards} exceeds num_problems {self.num_problems}")
        if self.mode == "nested" and self.random_handoff_probability > 0:
            raise ValueError(
                f"random_handoff_probability {self.random_handoff_probability:g} with mode 'nested', which plays all "
                "candidates to the end: set it to 0"
            )
        return self

    @model_validator(mode="after")
    def _fans_out(self) -> "RolloutConfig":
        if self.branching is None:
            return self
        if self.mode != "nested":
            raise ValueError(
                f"branching {list(self.branching)} with mode {self.mode!r}: use mode nested, or leave branching out"
            )
        if not self.branching or min(self.branching) < 1 or max(self.branching) < 2:
            raise ValueError(
                f"branching {list(self.branching)}: each is at least 1, and one at least 2, to be compared"
            )
        if prod(self.branching) > MAX_LEAVES:
            raise ValueError(
                f"branching {list(self.branching)} end in {prod(self.branching)} episodes per problem; at most {MAX_LEAVES}"
            )
        return self


class EvaluationConfig(Settings):
    every: int = Field(0, ge=0)
    """Steps between evaluations; 0 evaluates only before the first and after the last step."""
    num_problems: int = Field(500, ge=1)
    """Problems of the test split; for teams of chat models 40 unless given. Not given, it is at most what there is."""
    sampling: tuple[Literal["sample", "greedy"], ...] = ("sample", "greedy")
    """sample draws at temperature 1, or at an agent's own; greedy takes the most likely token. For teams
    of chat models sample alone unless given."""
    problems_per_block: int = Field(250, ge=1)
    """Problems played together. Affects results, because it decides batch shapes."""

    @property
    def preferred_sampling(self) -> Literal["sample", "greedy"]:
        """How a run is shown best where one way has to do: sampled, if its own evaluations are."""
        return "sample" if "sample" in self.sampling else self.sampling[0]
