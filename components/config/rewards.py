"""The section `rewards`: which terms make up a reward, and how they are computed."""

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, model_validator

from components.frozen import Settings


class RewardConfig(Settings):
    team_weight: float = 1.0
    """alpha in reward = alpha * team + local + own."""
    team_credit: Literal["node", "turn_end", "episode_end"] = "node"
    """The outcome that gives a candidate its team term, in mode tree. node, which all presets use: its own, which is equal for
    all candidates of an agent whose answer cannot solve by itself, as of the tool agent in math; such an agent learns from its
    local terms alone. turn_end, episode_end: the last one of the turn or episode, after the later
    agents have continued each candidate with one answer each; this costs their tokens."""
    weights: Mapping[str, float] = Field(default_factory=dict)
    """Overrides of default weights by component: team.<name> and local.<name> of the environment, own.<name> of `functions`."""
    functions: tuple[str, ...] = ()
    """Your own reward functions, each as module:function, in the current folder or installed. mine:brevity is the component
    own.brevity, with weight 1. Rollouts do not depend on them, so recorded ones stay valid."""
    sources: Mapping[str, str] = Field(default_factory=dict)
    """The source digest of each of `functions`. Filled in at the start."""
    shuffle_rewards: bool = False
    """Control experiment: permute the rewards of all candidates of a step, so that nothing can be learned."""
    reuse_executions: bool = True
    """False runs every program of the rollouts again, to check that rewards are reproducible."""
    max_failed_fraction: float = Field(0.05, ge=0.0, le=1.0)
    """The share of a shard's candidates that the sandbox may leave without a reward before the stage raises, and of its
    episodes that it may end."""
    deadline_seconds: float = Field(1800.0, gt=0.0)
    """Time limit of all programs of one shard; then the reward stage raises and is retried."""
    overlong_buffer: int = Field(0, ge=0)
    """Tokens before an answer's limit within which its reward falls linearly (DAPO's soft overlong punishment); 0: none."""
    overlong_penalty: float = Field(1.0, ge=0.0)
    """The penalty of an answer of full length."""

    @model_validator(mode="after")
    def _components_have_names_of_their_own(self) -> "RewardConfig":
        if len(self.own_components) < len(self.functions):
            raise ValueError(
                f"functions {list(self.functions)}: two of one name would be one component; rename one of them"
            )
        return self

    @property
    def own_components(self) -> Mapping[str, str]:
        """Component -> its function. **Example** {"own.brevity": "mine:brevity"}."""
        return {f"own.{name.partition(':')[2]}": name for name in self.functions}
