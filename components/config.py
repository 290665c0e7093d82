"""The configuration of a run: one frozen tree, unknown keys rejected with the nearest valid name.

Each field's meaning stands under it. Values are written by hand in `prefect.yaml` alone.
"""

import difflib
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.errors import ConfigurationError


class Section(BaseModel):
    """A part of the configuration: immutable, strict about its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EnvironmentConfig(Section):
    name: str
    """A registered environment: plan_path, sokoban, sudoku, code, math, search, shop, calendar, file_tree, blocksworld..."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The environment's own options (sizes, densities); its family validates them."""
    max_turns: int = Field(2, ge=1)
    """Turns after which an episode ends. Reaching it is not success."""


class TinyModelConfig(Section):
    hidden_size: int = Field(96, ge=8)
    num_layers: int = Field(4, ge=1)
    num_heads: int = Field(4, ge=1)
    intermediate_size: int = Field(256, ge=8)
    max_position_embeddings: int = Field(512, ge=16)


class PolicyConfig(Section):
    base: str = "tiny"
    """Where the weights start: "tiny" (built and warm-started here), "smollm2-135m", a model folder, or a hub name."""
    tiny: TinyModelConfig = TinyModelConfig()
    """The shape of the model when base is "tiny"."""
    prompt_format: Literal["compact", "chat"] = "compact"
    """compact: the state's text alone. chat: instructions and state under the model's chat template."""
    trained: bool = True
    """False keeps these weights fixed."""


class AgentConfig(Section):
    policy: str
    """The policy that plays this role."""
    max_new_tokens: int | None = Field(None, ge=1)
    """Longest answer; None takes the environment's longest well-formed answer and its end."""


class WarmStartConfig(Section):
    gate: float = Field(0.30, ge=0.0, le=1.0)
    """Cloning stops at the first check whose held-out team success (temperature 1) reaches this."""
    gate_ceiling: float = Field(0.50, ge=0.0, le=1.0)
    """A success above this at the gate leaves too little to learn and is an error."""
    max_steps: int = Field(1500, ge=0)
    """Gradient steps after which a policy still below its gate is an error; 0 takes the random weights as they are."""
    check_every: int = Field(50, ge=1)
    """Gradient steps between two checks."""
    num_check_problems: int = Field(200, ge=1)
    """Train-split problems, outside the training range, on which a check plays."""
    prompts_per_step: int = Field(24, ge=1)
    demonstrations_per_prompt: int = Field(4, ge=1)
    noise: float = Field(0.25, ge=0.0, le=1.0)
    """Probability that a demonstrated move is a random one, so that the clone is weak but well-formed."""
    copy_probability: float = Field(0.5, ge=0.0, le=1.0)
    """How often the last agent's demonstration repeats a proposal that solves."""
    learning_rate: float = Field(2e-3, gt=0.0)
    num_warmup_steps: int = Field(50, ge=0)


class GenerationConfig(Section):
    engine: Literal["transformers"] = "transformers"
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = Field(1, ge=1)
    """CPU threads of the engine. Part of the result: other thread counts may round differently."""
    max_batch_tokens: int = Field(65536, ge=64)
    """Prompt and completion tokens that one forward batch may hold; larger requests are split in order."""
    probe_tolerance: float = Field(1e-4, gt=0.0)
    """Largest allowed difference between the engine's and the trainer's log-probabilities on the refresh probe."""


class RolloutConfig(Section):
    mode: Literal["tree", "independent", "single"] = "tree"
    """tree: AT-GRPO. independent: group_size whole episodes a problem. single: the last agent plays alone."""
    num_problems: int = Field(32, ge=1)
    """Problems a step."""
    group_size: int = Field(8, ge=2)
    """Candidates compared at a node. One candidate carries no signal, hence the bound."""
    temperature: float = Field(1.0, gt=0.0)
    num_shards: int = Field(1, ge=1)
    """Independent tasks into which a step's problems are split."""
    problems_per_block: int = Field(32, ge=1)
    """Problems that are played together and journalled as one; fixes batch shapes, so part of the result."""
    continue_from: Literal["best", "mixed"] = "best"
    """mixed hands on a random candidate with `random_handoff_probability`, so that later agents see bad proposals too."""
    random_handoff_probability: float = Field(0.0, ge=0.0, le=1.0)
    """For every agent but the last, which always continues from its best."""
    max_failed_fraction: float = Field(0.0, ge=0.0, le=1.0)
    """Failed episodes that a shard may hold before the stage raises."""

    @model_validator(mode="after")
    def _consistent(self) -> "RolloutConfig":
        if (self.random_handoff_probability > 0) != (self.continue_from == "mixed"):
            raise ValueError(
                f"continue_from {self.continue_from!r} with random_handoff_probability "
                f"{self.random_handoff_probability}: use mixed with a probability above 0, or best with 0"
            )
        if self.num_shards > self.num_problems:
            raise ValueError(f"num_shards {self.num_shards} exceeds num_problems {self.num_problems}")
        return self


class ExecutionConfig(Section):
    wall_seconds: float = Field(10.0, gt=0.0, le=600.0)
    """How long a program that an agent wrote may run. CPU time is the fair limit where cores are shared: keep this a few
    times larger."""
    cpu_seconds: float = Field(4.0, gt=0.0, le=600.0)
    memory_mib: int = Field(256, ge=32, le=65536)
    """Address space of one program."""
    output_kib: int = Field(64, ge=1, le=4096)
    """Of standard output and of standard error, each; a program that writes more is ended."""


class SandboxConfig(Section):
    backend: Literal["auto", "docker", "bubblewrap"] = "auto"
    """auto takes docker, then bubblewrap, and refuses when neither works; programs never run outside a sandbox."""
    num_boxes: int | None = Field(None, ge=1)
    """Programs that may run at once; None means two a core."""


class RewardConfig(Section):
    team_weight: float = 1.0
    """alpha in reward = alpha * team + local."""
    weights: Mapping[str, float] = Field(default_factory=dict)
    """Overrides of the environment's default weights, by component: team.<name>, local.<name>."""
    shuffle_between_groups: bool = False
    """Control experiment: permute the rewards over all candidates of a step, so that nothing can be learned."""
    reuse_executions: bool = True
    """False runs every program of the rollouts again, to see that rewards do not depend on when they are computed."""
    max_failed_fraction: float = Field(0.05, ge=0.0, le=1.0)
    """Candidates of a shard that may stay without a reward because the sandbox failed; above it the stage raises."""
    deadline_seconds: float = Field(1800.0, gt=0.0)
    """How long the programs of one shard may take in all before the reward stage raises and is tried again."""


class AlgorithmConfig(Section):
    advantage: Literal["at_grpo", "grpo"] = "at_grpo"
    """at_grpo compares the candidates of one node; grpo compares whole episodes of one problem (mode independent)."""
    normalize_std: bool = True
    """Divide the centred reward by the group's standard deviation."""
    epsilon: float = Field(1e-4, gt=0.0)
    """Added to the standard deviation."""


class LossConfig(Section):
    clip_low: float = Field(0.2, ge=0.0)
    clip_high: float = Field(0.2, ge=0.0)
    """Bounds of the importance ratio: [1 - clip_low, 1 + clip_high]; a higher clip_high is DAPO's clip-higher."""
    kl_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the k3 KL estimate to the reference, the policy before training; 0 loads no reference."""
    entropy_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the mean token entropy, which is subtracted from the loss."""
    importance_cap: float | None = Field(None, gt=0.0)
    """Truncated importance sampling between sampler and trainer: weights are capped here; None turns it off."""
    mismatch_tolerance: float | None = Field(1e-3, gt=0.0)
    """Largest allowed |trainer - sampler| log-probability before the first update of a batch; None turns it off."""


class TrainingConfig(Section):
    learning_rate: float = Field(3e-4, gt=0.0)
    num_warmup_updates: int = Field(0, ge=0)
    """Optimizer steps over which the learning rate rises linearly."""
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    """After the warm-up; linear and cosine end at 0 on the run's last update."""
    weight_decay: float = Field(0.0, ge=0.0)
    adam_betas: tuple[float, float] = (0.9, 0.95)
    max_grad_norm: float = Field(1.0, gt=0.0)
    num_epochs: int = Field(1, ge=1)
    """Passes over a batch."""
    num_minibatches: int = Field(2, ge=1)
    """Optimizer steps a pass."""
    tokens_per_micro_batch: int = Field(16384, ge=64)
    """Padded tokens that one forward and backward may hold."""
    share_prompts: bool = True
    """Pack a group's completions behind one copy of their prompt."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """DeepSpeed ZeRO stage; `infra/deepspeed/zero<stage>.json` holds the rest."""
    num_ranks: int = Field(1, ge=1)
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = Field(1, ge=1)
    """CPU threads of one rank. Part of the result."""
    update_timeout_seconds: float = Field(3600.0, gt=0.0)
    """How long one update may take before its worker is ended and the stage is tried again."""

    @model_validator(mode="after")
    def _precision_fits_device(self) -> "TrainingConfig":
        if self.device == "cpu" and self.dtype != "float32":
            raise ValueError("dtype bfloat16 needs device cuda; on the CPU use float32")
        return self


class EvaluationConfig(Section):
    every: int = Field(0, ge=0)
    """Steps between evaluations; 0 evaluates before the first and after the last step alone."""
    num_problems: int = Field(500, ge=1)
    """Problems of the test split."""
    sampling: tuple[Literal["sample", "greedy"], ...] = ("sample", "greedy")
    """sample draws at temperature 1, greedy takes the likeliest token."""
    problems_per_block: int = Field(250, ge=1)
    """Problems that are played together."""


class StoreConfig(Section):
    kind: Literal["local", "s3"] = "s3"
    root: str | None = None
    """local: the directory."""
    bucket: str = "troupe"
    """s3: the bucket."""
    prefix: str = ""
    """s3: everything lies under this key prefix."""
    endpoint_url: str | None = None
    """s3: another server than AWS; None takes the local server of `troupe up`, or AWS's own settings."""

    @model_validator(mode="after")
    def _root_for_local(self) -> "StoreConfig":
        if self.kind == "local" and not self.root:
            raise ValueError("kind local needs root, the directory that holds the artifacts")
        return self


class TrackingConfig(Section):
    kind: Literal["mlflow", "none"] = "mlflow"
    url: str | None = None
    """MLflow's tracking address; None takes the local server of `troupe up`, or MLFLOW_TRACKING_URI."""
    experiment: str = "troupe"
    register_models: bool = True
    """Register each checkpoint as a model version of `<run_id>.<policy>`."""


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
        if self.algorithm.advantage == "at_grpo" and self.rollout.mode != "tree":
            raise ValueError(
                f"algorithm.advantage at_grpo compares the candidates of a node, and mode {self.rollout.mode} draws one: "
                "set rollout.mode to tree, or algorithm.advantage to grpo"
            )
        return self

    def result_fields(self) -> dict[str, Any]:
        """The fields that decide the weights, as JSON: all but where things are kept, shown and how long a run goes on."""
        excluded = {"store", "tracking", "preset", "evaluation", "sandbox"}
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


def parse_config(values: Mapping[str, Any]) -> RunConfig:
    """`values` as a RunConfig. Raises ConfigurationError: one line a fault, with the field, the value and the remedy."""
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_explained(error, values))) from error


def differing_fields(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """`path: old -> new` for each leaf in which two configurations differ."""
    before, after = dict(_leaves(old)), dict(_leaves(new))
    absent = "(absent)"
    return [
        f"{path}: {before.get(path, absent)!r} -> {after.get(path, absent)!r}"
        for path in sorted(before.keys() | after.keys())
        if before.get(path, absent) != after.get(path, absent)
    ]


def _leaves(values: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(values, Mapping) and values:
        for key, value in values.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    else:
        yield path, values


def _explained(error: ValidationError, values: Mapping[str, Any]) -> Iterator[str]:
    for fault in error.errors():
        path = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            known = _known_keys(fault["loc"][:-1])
            nearest = difflib.get_close_matches(str(fault["loc"][-1]), known, n=1, cutoff=0.4)
            remedy = f"did you mean {nearest[0]!r}?" if nearest else f"valid keys: {', '.join(sorted(known))}"
            yield f"{path}: unknown key; {remedy}"
        elif fault["type"] == "missing":
            yield f"{path}: required and missing"
        else:
            message = fault["msg"].removeprefix("Value error, ")
            given = "" if isinstance(fault["input"], Mapping | BaseModel) else f" (got {fault['input']!r})"
            yield f"{path}: {message}{given}" if path else f"{message}{given}"


def _known_keys(path: tuple[int | str, ...]) -> list[str]:
    """The field names of the section at `path`; a name under a mapping section stands for any of its values."""
    section: Any = RunConfig
    for part in path:
        field = section.model_fields.get(str(part)) if hasattr(section, "model_fields") else None
        annotation = field.annotation if field is not None else section
        arguments = getattr(annotation, "__args__", ())
        models = [a for a in (annotation, *arguments) if isinstance(a, type) and issubclass(a, BaseModel)]
        section = models[0] if models else section
    return list(section.model_fields) if hasattr(section, "model_fields") else []
