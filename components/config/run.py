"""The configuration of a run, and the part of it that each stage depends on."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from components.config.agents import AgentConfig
from components.config.algorithm import AlgorithmConfig
from components.config.chat_defaults import BFLOAT16_MISMATCH, IMPORTANCE_CAP, unset_counts, with_chat_defaults
from components.config.environment import EnvironmentConfig
from components.config.generation import DTYPES, GenerationConfig
from components.config.hybrid import HybridConfig, hybrid_misfit
from components.config.loss import LossConfig
from components.config.policies import PolicyConfig
from components.config.population import PopulationConfig, members_misfit, population_misfit
from components.config.retention import RetentionConfig
from components.config.rewards import RewardConfig
from components.config.rollout import EvaluationConfig, RolloutConfig
from components.config.sandbox import ExecutionConfig, SandboxConfig
from components.config.store import ResourceConfig, StoreConfig, TrackingConfig, with_experiment
from components.config.training import TrainingConfig, WarmStartConfig
from components.config.types import Name
from components.frozen import Frozen

BFLOAT16_LEAST = 0.01
"""Tolerances below this are for float32."""


class RunConfig(Frozen):
    """Everything that decides a run's results, and its store and tracking."""

    preset: Name = "custom"
    """The deployment of this configuration."""
    seed: int = 0
    """The only source of randomness."""
    num_steps: int = Field(..., ge=0)
    """Training iterations."""
    environment: EnvironmentConfig
    agents: Mapping[str, AgentConfig]
    """Role -> agent. The environment defines the roles. Empty where `hybrid` asks no language model."""
    policies: Mapping[Name, PolicyConfig]
    """Name -> weights. One policy for all roles, or one per role."""
    warm_start: WarmStartConfig = WarmStartConfig()
    generation: GenerationConfig = GenerationConfig()
    rollout: RolloutConfig = RolloutConfig()
    execution: ExecutionConfig = ExecutionConfig()
    sandbox: SandboxConfig = SandboxConfig()
    rewards: RewardConfig = RewardConfig()
    algorithm: AlgorithmConfig = AlgorithmConfig()
    loss: LossConfig = LossConfig()
    training: TrainingConfig = TrainingConfig()
    population: PopulationConfig | None = None
    """Train the policies as a population, by the flow `train-population`; None: as a team, by `train`."""
    hybrid: HybridConfig | None = None
    """Train an RL policy that shares a game with a language model, by the flow `train-hybrid`; None: train models."""
    evaluation: EvaluationConfig = EvaluationConfig()
    resources: ResourceConfig = ResourceConfig()
    store: StoreConfig = StoreConfig()
    tracking: TrackingConfig = TrackingConfig()
    retention: RetentionConfig = RetentionConfig()

    @model_validator(mode="wrap")
    @classmethod
    def _fit_chat_models(cls, values: Any, validate: ModelWrapValidatorHandler["RunConfig"]) -> "RunConfig":
        """Defaults for chat models stay defaults: a number of problems that nobody chose may become smaller."""
        config = validate(with_chat_defaults(values))
        for section in unset_counts(values):
            getattr(config, section).model_fields_set.discard("num_problems")
        return config

    @model_validator(mode="before")
    @classmethod
    def _name_experiment(cls, values: Any) -> Any:
        return with_experiment(values)

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
        return self

    @model_validator(mode="after")
    def _advantage_fits_the_rollouts(self) -> "RunConfig":
        advantage, mode = self.algorithm.advantage, self.rollout.mode
        if advantage in ("grpo", "gigpo") and mode in ("tree", "nested"):
            raise ValueError(
                f"algorithm.advantage {advantage} compares whole episodes: set rollout.mode to independent or single"
            )
        if advantage in ("at_grpo", "c3") and mode not in ("tree", "nested"):
            raise ValueError(
                f"algorithm.advantage {advantage} compares the candidates of a node, and mode {mode} draws one: "
                f"set rollout.mode to {'tree' if advantage == 'at_grpo' else 'nested'}, or algorithm.advantage to grpo"
            )
        if advantage == "c3" and mode == "tree" and self.rewards.team_credit == "node":
            raise ValueError(
                "algorithm.advantage c3 compares what becomes of candidates, and in rollout.mode tree they are rewarded for "
                "themselves: set the mode to nested, or rewards.team_credit to turn_end or episode_end, or use rloo"
            )
        return self

    @model_validator(mode="after")
    def _sections_fit_each_other(self) -> "RunConfig":
        advantage, mode = self.algorithm.advantage, self.rollout.mode
        if advantage == "reinforce_pp" and self.rollout.max_resamples:
            raise ValueError(
                "rollout.max_resamples replaces groups of equal rewards, which algorithm.advantage reinforce_pp learns from: "
                "set max_resamples to 0, or another advantage"
            )
        if advantage == "solver_value" and self.rewards.shuffle_rewards:
            raise ValueError(
                "rewards.shuffle_rewards is no control for algorithm.advantage solver_value, which learns from no "
                "reward: set it to false, or another advantage"
            )
        if self.rewards.team_credit != "node" and mode != "tree":
            raise ValueError(
                f"rewards.team_credit {self.rewards.team_credit} continues the candidates of a tree, and rollout.mode is "
                f"{mode}: set team_credit to node, or the mode to tree"
            )
        if self.environment.answer_format == "choice" and self.generation.engine != "transformers":
            raise ValueError(
                f"environment.answer_format choice: generation.engine {self.generation.engine} does not draw among given "
                "answers; set it to transformers, or answer_format to strict or free"
            )
        adapted = sorted(name for name, policy in self.policies.items() if policy.trained and policy.adapter)
        if self.loss.reference_every is not None and self.training.zero_stage == 3 and adapted:
            raise ValueError(
                f"loss.reference_every {self.loss.reference_every} needs whole adapters, as of {adapted[0]}, and "
                "training.zero_stage 3 splits them: set it to 2, or leave out reference_every"
            )
        if self.rollout.overlap == "one_step" and self.loss.importance_cap is None:
            raise ValueError(
                "rollout.overlap one_step trains on answers of the weights before: set loss.importance_cap, for example 2.0"
            )
        return self

    @model_validator(mode="after")
    def _flows_fit(self) -> "RunConfig":
        if misfit := hybrid_misfit(self) or population_misfit(self) or members_misfit(self):
            raise ValueError(misfit)
        return self

    @model_validator(mode="after")
    def _rounding_is_corrected(self) -> "RunConfig":
        """In bfloat16 sampler and trainer round differently, which the loss must allow and correct."""
        lossy = [name for name in ("generation", "training") if getattr(self, name).dtype == "bfloat16"]
        if not lossy or not any(policy.trained for policy in self.policies.values()):
            return self
        said = f"{lossy[0]}.dtype bfloat16: sampler and trainer round differently"
        if self.loss.importance_cap is None:
            raise ValueError(f"{said}: set loss.importance_cap, for example {IMPORTANCE_CAP:g}")
        tolerance, probe = self.loss.mismatch_tolerance, self.generation.probe_tolerance
        if tolerance is not None and tolerance < BFLOAT16_LEAST:
            raise ValueError(
                f"{said}, and loss.mismatch_tolerance {tolerance:g} is for float32: set it to {BFLOAT16_MISMATCH:g}"
            )
        if probe < BFLOAT16_LEAST:
            raise ValueError(
                f"{said}, and generation.probe_tolerance {probe:g} is for float32: set it to "
                f"{DTYPES['bfloat16'].sets['probe_tolerance']:g}"
            )
        return self

    @model_validator(mode="after")
    def _lengths_fit(self) -> "RunConfig":
        """Checks explicit limits; those that come from the environment are checked later."""
        for role, agent in self.agents.items():
            limit, thinking = agent.max_new_tokens, agent.max_thinking_tokens or 0
            if limit and self.rewards.overlong_buffer >= limit:
                raise ValueError(
                    f"rewards.overlong_buffer {self.rewards.overlong_buffer} punishes all answers of {role}: set it "
                    f"below agents.{role}.max_new_tokens {limit}"
                )
            if thinking and self.rewards.overlong_buffer:
                raise ValueError(
                    f"rewards.overlong_buffer {self.rewards.overlong_buffer} counts back from the one limit of an answer, and "
                    f"{role} has two: leave it out, or leave out agents.{role}.max_thinking_tokens {thinking}"
                )
            if self.loss.fixed_length is not None and self.loss.fixed_length < (limit or 0) + thinking:
                beside = f" and max_thinking_tokens {thinking}" if thinking else ""
                raise ValueError(
                    f"loss.fixed_length {self.loss.fixed_length} is below agents.{role}.max_new_tokens {limit}{beside}: set it "
                    "to at least the longest answer"
                )
        return self

    @model_validator(mode="after")
    def _agents_fit_their_policies(self) -> "RunConfig":
        for role, agent in self.agents.items():
            if misfit := agent.misfit(self.policies[agent.policy]):
                raise ValueError(f"agents.{role}.{misfit}")
        return self

    def result_fields(self) -> dict[str, Any]:
        """The fields that decide the weights, as JSON: no resources, store, tracking, retention, evaluation, num_steps."""
        excluded: dict[str, Any] = dict.fromkeys(
            ("store", "tracking", "retention", "preset", "evaluation", "sandbox", "resources"), True
        )
        if self.training.lr_schedule == "constant":
            excluded["num_steps"] = True  # a decaying schedule depends on where it ends
        return self.model_dump(mode="json", exclude={**excluded, **_PLACES})

    @property
    def specialisation(self) -> str:
        """L0 one agent; L1 one policy, roles by prompt; L2 one base, an adapter per role; L3 a model per role; else "mixed"."""
        playing = [self.policies[agent.policy] for agent in self.agents.values()]
        if self.rollout.mode == "single" or len(playing) <= 1:
            return "L0"
        if len(self.policies) == 1:
            return "L1"
        if len(self.policies) < len(playing) or any(policy.api for policy in playing):
            return "mixed"
        if not any(policy.adapter for policy in playing):
            return "L3"
        bases = {(policy.base, policy.tiny.model_dump_json(), policy.prompt_format) for policy in playing}
        return "L2" if len(bases) == 1 and all(policy.adapter for policy in playing) else "mixed"


_PLACES: Mapping[str, Any] = {"generation": {"vllm"}}
"""Server settings in sections that decide results."""
