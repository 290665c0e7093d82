"""The whole configuration of a run, and the part of it that each stage depends on."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from components.config.learning import AlgorithmConfig, EvaluationConfig, LossConfig, TrainingConfig
from components.config.places import ResourceConfig, StoreConfig, TrackingConfig
from components.config.play import (
    EnvironmentConfig,
    ExecutionConfig,
    GenerationConfig,
    RewardConfig,
    RolloutConfig,
    SandboxConfig,
)
from components.config.policies import AgentConfig, PolicyConfig, WarmStartConfig
from components.config.section import Section


class RunConfig(Section):
    """Everything that decides a run's result, and where it is kept and shown."""

    preset: str = "custom"
    """The deployment that this configuration came from."""
    seed: int = 0
    """The only source of randomness."""
    num_steps: int = Field(..., ge=0)
    """Training iterations."""
    environment: EnvironmentConfig
    agents: Mapping[str, AgentConfig]
    """Role -> who plays it; roles are the environment's."""
    policies: Mapping[str, PolicyConfig]
    """Name -> weights. One policy for all roles, or one a role."""
    warm_start: WarmStartConfig = WarmStartConfig()
    generation: GenerationConfig = GenerationConfig()
    rollout: RolloutConfig = RolloutConfig()
    execution: ExecutionConfig = ExecutionConfig()
    sandbox: SandboxConfig = SandboxConfig()
    rewards: RewardConfig = RewardConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    loss: LossConfig = LossConfig()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    resources: ResourceConfig = ResourceConfig()
    store: StoreConfig = StoreConfig()
    tracking: TrackingConfig = TrackingConfig()

    @model_validator(mode="after")
    def _names_resolve(self) -> "RunConfig":
        for role, agent in self.agents.items():
            if agent.policy not in self.policies:
                raise ValueError(
                    f"agents.{role}.policy {agent.policy!r} is not a policy; policies are {sorted(self.policies)}"
                )
        unused = set(self.policies) - {agent.policy for agent in self.agents.values()}
        if unused:
            raise ValueError(f"policies {sorted(unused)} are played by no agent; remove them or name them in agents")
        if self.algorithm.advantage == "grpo" and self.rollout.mode == "tree":
            raise ValueError(
                "algorithm.advantage grpo compares whole episodes: set rollout.mode to independent or single"
            )
        if self.rollout.overlap == "one_step" and self.loss.importance_cap is None:
            raise ValueError(
                "rollout.overlap one_step trains on answers of the weights before: set loss.importance_cap, for example 2.0"
            )
        if self.algorithm.advantage == "at_grpo" and self.rollout.mode != "tree":
            raise ValueError(
                f"algorithm.advantage at_grpo compares the candidates of a node, and mode {self.rollout.mode} draws one: "
                "set rollout.mode to tree, or algorithm.advantage to grpo"
            )
        return self

    def result_fields(self) -> dict[str, Any]:
        """The fields that decide the weights, as JSON: all but where things are kept, shown and how long a run goes on."""
        excluded = {"store", "tracking", "preset", "evaluation", "sandbox", "resources"}
        if self.training.lr_schedule == "constant":
            excluded.add("num_steps")  # a decaying schedule depends on where it ends
        return self.model_dump(mode="json", exclude=excluded)


STAGE_SECTIONS: Mapping[str, tuple[str, ...]] = {
    "warm_start": ("seed", "environment", "agents", "policies", "warm_start", "generation", "execution"),
    "collect_rollouts": ("seed", "environment", "agents", "policies", "generation", "rollout", "execution"),
    "compute_rewards": ("seed", "environment", "rewards", "rollout", "execution"),
    "compute_advantages": ("seed", "algorithm", "agents", "policies"),
    "update_policy": ("seed", "training", "loss", "rollout"),
    "publish_checkpoint": (),
    "evaluate_policy": (
        "seed",
        "environment",
        "agents",
        "policies",
        "generation",
        "evaluation",
        "rollout",
        "execution",
    ),
}
"""What each stage depends on: changing another section does not throw its results away.

Rollouts are chosen by the rubric and yet do not name `rewards`: within a lineage the configuration is frozen, and a restart
from the reward stage under another rubric must find the rollouts of its step where they are.
"""


def stage_config(config: RunConfig, stage: str) -> dict[str, Any]:
    """The part of `config` that `stage` depends on, as JSON."""
    included = set(STAGE_SECTIONS[stage])
    if stage == "update_policy" and config.training.lr_schedule != "constant":
        included.add("num_steps")
    return config.model_dump(mode="json", include=included)
