"""Environment, generation, rollout, sandbox and rewards."""

from collections.abc import Mapping
from math import prod
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from components.config.defaults import DTYPES, ChoosingSection
from components.config.types import Address
from components.frozen import Frozen


class EnvironmentConfig(Frozen):
    name: str
    """plan_path, sokoban, sudoku, code, math, search, shop, calendar, file_tree, blocksworld, eight_queens; one of an installed
    package; or your own as module:Name, in the current folder or installed."""
    source: str | None = None
    """The source digest of an environment that is not built in. Filled in at the start, so that a changed file never continues
    from results of the old one."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The environment's own options (sizes, densities); validated by its family."""
    max_turns: int = Field(2, ge=1)
    """Turns after which an episode ends; reaching it is not success. If the environment decides who acts next, every answer is
    a turn."""
    turn_order: tuple[str | tuple[str, ...], ...] | None = None
    """The order of roles in a turn; a role may act more than once: `[drafter, critic, drafter]`. Roles in inner brackets act
    in parallel on the same state: `[[solver_a, solver_b], judge]`. None: the environment's own."""
    answers: Literal["compact", "reasoned"] = "compact"
    """compact: an answer is its grammar and nothing else. reasoned: it may reason first, and its last list, block, line or JSON
    value is read. Thinking in <think> tags is left out in both. Teams of chat models reason unless this is given."""

    @field_validator("turn_order", mode="before")
    @classmethod
    def _read_order(cls, value: Any) -> Any:
        if value is None:
            return None
        entries = value if isinstance(value, list | tuple) else ()
        inner = [entry if isinstance(entry, list | tuple) else [entry] for entry in entries]
        if not inner or not all(agents and all(isinstance(agent, str) for agent in agents) for agents in inner):
            raise ValueError("write it as [first, second], or for two that act in parallel as [[first, second], third]")
        return tuple(entry if isinstance(entry, str) else tuple(entry) for entry in entries)


class VllmConfig(Frozen):
    num_replicas: int = Field(1, ge=1)
    """Servers per model, behind one router. A model is a policy with full weights, or a base that adapters share."""
    port: int = Field(8100, ge=1024, le=65000)
    """Of the first server started on this machine; the others use the next free ports."""
    urls: tuple[Address, ...] = ()
    """Base addresses of running servers; then none are started. They must see this machine's temporary files (TMPDIR) under
    the same paths, and require the key in `key_file`. Use https:// on networks that others can read."""
    key_file: str | None = None
    """File with the key of the servers at `urls`, the same as in their TROUPE_VLLM_KEY_FILE; ~ is the home folder."""
    merge_adapters: bool = False
    """Load each adapter merged into its base as full weights: faster sampling, but one policy per server."""
    max_model_tokens: int | None = Field(None, ge=16)
    """Maximal tokens of prompt and answer; None uses the model's own limit."""
    max_requests_at_once: int = Field(64, ge=1)
    """Candidates that one server samples at once; others are queued here."""
    kv_cache_gib: float = Field(1.0, gt=0.0)
    """Used on the CPU, where vLLM cannot choose it."""
    gpu_memory_fraction: float = Field(0.5, gt=0.0, le=1.0)
    """Of the device, for each server's weights and cache."""
    start_timeout_seconds: float = Field(600.0, gt=0.0)
    request_timeout_seconds: float = Field(600.0, gt=0.0)
    """Of one candidate or one refresh."""
    health_timeout_seconds: float = Field(20.0, gt=0.0)
    """A server that does not answer its health check for this long is dropped, and its requests go to others."""


class GenerationConfig(ChoosingSection):
    chosen_by = "dtype"
    choices = DTYPES

    engine: Literal["transformers", "vllm"] = "transformers"
    """transformers: in this process. vllm: separate servers, over HTTP."""
    vllm: VllmConfig = VllmConfig()
    """Used if engine is "vllm"."""
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Teams of chat models on the CPU have bfloat16 unless this or training.dtype is given."""
    num_threads: int = Field(1, ge=1)
    """CPU threads of the engine. Affects results: other thread counts may round differently."""
    max_batch_tokens: int = Field(65536, ge=64)
    """Maximal prompt and completion tokens of a forward batch; larger requests are split in order. Affects results: other batch
    shapes round log-probabilities differently."""
    probe_tolerance: float = Field(1e-4, gt=0.0)
    """Largest allowed difference between the log-probabilities of engine and trainer on the refresh probe, whose tokens are
    improbable ones, down to -8 nats, and in proportion below; with dtype bfloat16 0.5 unless given."""


MAX_LEAVES = 256
"""The most episodes in which a nested tree may end."""


class RolloutConfig(Frozen):
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
                f"random_handoff_probability {self.random_handoff_probability:g} with mode 'nested', in which all candidates "
                "go on: set it to 0"
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


class ExecutionConfig(Frozen):
    wall_seconds: float = Field(10.0, gt=0.0, le=600.0)
    """Wall time of one program. CPU time is the fair limit on shared cores: keep this a few times larger."""
    cpu_seconds: float = Field(4.0, gt=0.0, le=600.0)
    memory_mib: int = Field(256, ge=32, le=65536)
    """Address space of one program."""
    output_kib: int = Field(64, ge=1, le=4096)
    """Of standard output and of standard error, each; a program that writes more is killed."""


class SandboxConfig(Frozen):
    backend: Literal["auto", "docker", "bubblewrap"] = "auto"
    """auto uses docker, else bubblewrap, and refuses if neither works; programs never run outside a sandbox."""
    num_boxes: int | None = Field(None, ge=1)
    """Programs that may run at once; None means two per core."""
    spot_check_fraction: float | None = Field(None, ge=0.0, le=1.0)
    """Share of a shard's recorded executions that the reward stage repeats, at this share of the rollout's sandbox time. A
    program with another result than recorded is an error; rewards never change. None means .05 if resources.ray_address names
    a cluster, whose hosts play the shards, and 0 otherwise."""


class RewardConfig(Frozen):
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
