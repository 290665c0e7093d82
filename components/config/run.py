"""The configuration of a run, and the part of it that each stage depends on."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, ModelWrapValidatorHandler, model_validator

from components.config.agents import AgentConfig
from components.config.algorithm import Algorithm, AtGrpo
from components.config.chat_defaults import BFLOAT16_MISMATCH, IMPORTANCE_CAP, unset_counts, with_chat_defaults
from components.config.environment import EnvironmentConfig
from components.config.generation import BFLOAT16_PROBE, Generation, TransformersGeneration
from components.config.loss import ClipLoss, Loss, LossConfig
from components.config.method import Method, unread_sections
from components.config.policies import PolicyConfig
from components.config.retention import RetentionConfig
from components.config.rewards import RewardConfig
from components.config.rollout import EvaluationConfig, RolloutConfig
from components.config.sandbox import ExecutionConfig, SandboxConfig
from components.config.sections import TeamMethod
from components.config.store import ResourceConfig, StoreConfig, TrackingConfig, with_experiment
from components.config.training import TrainingConfig, WarmStartConfig
from components.config.types import Name
from components.frozen import Settings

BFLOAT16_LEAST = 0.01
"""Tolerances below this are for float32."""


class RunConfig(Settings):
    """Everything that decides a run's results, and its store and tracking."""

    preset: Name = "custom"
    """The deployment of this configuration."""
    seed: int = 0
    """The only source of randomness."""
    num_steps: int = Field(..., ge=0)
    """Training iterations."""
    method: Method = TeamMethod()
    """Who is trained: a team, a population of members, or an RL policy that shares a game with a language model."""
    environment: EnvironmentConfig
    agents: Mapping[str, AgentConfig]
    """Role -> agent. The environment defines the roles. Empty where the method asks no language model."""
    policies: Mapping[Name, PolicyConfig]
    """Name -> weights. One policy for all roles, or one per role."""
    warm_start: WarmStartConfig = WarmStartConfig()
    generation: Generation = TransformersGeneration()
    rollout: RolloutConfig = RolloutConfig()
    execution: ExecutionConfig = ExecutionConfig()
    sandbox: SandboxConfig = SandboxConfig()
    rewards: RewardConfig = RewardConfig()
    algorithm: Algorithm = AtGrpo()
    loss: Loss = ClipLoss()
    training: TrainingConfig = TrainingConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    resources: ResourceConfig = ResourceConfig()
    store: StoreConfig = StoreConfig()
    tracking: TrackingConfig = TrackingConfig()
    retention: RetentionConfig = RetentionConfig()

    @model_validator(mode="wrap")
    @classmethod
    def _fit_chat_models(cls, values: Any, validate: ModelWrapValidatorHandler["RunConfig"]) -> "RunConfig":
        """Defaults for chat models stay defaults: a number of problems that nobody chose may become smaller."""
        config = validate(with_chat_defaults(values, unread_sections(values)))
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
    def _advantage_fits(self) -> "RunConfig":
        algorithm, mode = self.algorithm, self.rollout.mode
        said = f"algorithm.advantage {algorithm.advantage}"
        if mode not in algorithm.modes and "rollout" not in self.method.unread:
            compared = (
                "whole episodes"
                if "independent" in algorithm.modes
                else f"the candidates of a node, and {mode} draws one"
            )
            raise ValueError(f"{said} compares {compared}: set rollout.mode to {' or '.join(algorithm.modes)}")
        if algorithm.compares_continuations and mode == "tree" and self.rewards.team_credit == "node":
            raise ValueError(
                f"{said} compares what becomes of candidates, and in rollout.mode tree they are rewarded for themselves: set "
                "the mode to nested, or rewards.team_credit to turn_end or episode_end, or use rloo"
            )
        if algorithm.learns_from_equal_rewards and self.rollout.max_resamples:
            raise ValueError(
                f"rollout.max_resamples replaces groups of equal rewards, which {said} learns from: set max_resamples to 0, or "
                "another advantage"
            )
        if algorithm.reads_solver and self.rewards.shuffle_rewards:
            raise ValueError(
                f"rewards.shuffle_rewards is no control for {said}, which learns from no reward: set it to false, or another "
                "advantage"
            )
        if algorithm.has_critic and self.training.zero_stage:
            raise ValueError(
                f"training.zero_stage {self.training.zero_stage} splits optimizers, and {said} keeps a critic in them: set "
                "it to 0"
            )
        if self.loss.average_over == "session" and mode in ("tree", "nested") and "rollout" not in self.method.unread:
            raise ValueError(
                f"loss.average_over session with rollout.mode {mode}, which compares nodes, not episodes: set average_over to "
                "all or nonzero, or the mode to independent"
            )
        if algorithm.has_critic and self.loss.mask_truncated:
            raise ValueError(
                f"loss.mask_truncated leaves actions out, and the critic of {said} reads all of an episode: set it to false"
            )
        return self

    @model_validator(mode="after")
    def _sections_fit_each_other(self) -> "RunConfig":
        mode = self.rollout.mode
        if self.rewards.team_credit != "node" and mode != "tree":
            raise ValueError(
                f"rewards.team_credit {self.rewards.team_credit} continues the candidates of a tree, and rollout.mode is "
                f"{mode}: set team_credit to node, or the mode to tree"
            )
        if self.environment.answer_format == "choice" and not self.generation.draws_among_choices:
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
    def _method_fits(self) -> "RunConfig":
        fields = type(self).model_fields
        if unread := sorted(name for name in self.method.unread if getattr(self, name) != fields[name].default):
            raise ValueError(f"{unread[0]}: method {self.method.type} does not read this section; leave it out")
        if not self.tracking.episode_pictures and not self.method.makes_pictures:
            raise ValueError(
                "tracking.episode_pictures false: only a hybrid run on an emulator makes pictures; leave it out"
            )
        self.method.check(self)
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
                f"{said}, and generation.probe_tolerance {probe:g} is for float32: set it to {BFLOAT16_PROBE:g}"
            )
        return self

    @model_validator(mode="after")
    def _lengths_fit(self) -> "RunConfig":
        """Checks explicit limits; those that come from the environment are checked later."""
        loss: LossConfig = self.loss
        length = loss.fixed_length
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
            if length is not None and length < (limit or 0) + thinking:
                beside = f" and max_thinking_tokens {thinking}" if thinking else ""
                raise ValueError(
                    f"loss.fixed_length {length} is below agents.{role}.max_new_tokens {limit}{beside}: set it "
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
