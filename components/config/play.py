"""How episodes are played and scored."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from components.config.names import Address
from components.config.section import Section


class EnvironmentConfig(Section):
    name: str
    """plan_path, sokoban, sudoku, code, math, search, shop, calendar, file_tree, blocksworld, eight_queens; one that an
    installed package brings; or one's own as module:Name, in the current folder or installed."""
    source: str | None = None
    """The digest of the source behind a name that is not built in. The start fills it in, so that a changed file never goes
    on with what another one computed."""
    options: Mapping[str, Any] = Field(default_factory=dict)
    """The environment's own options (sizes, densities); its family validates them."""
    max_turns: int = Field(2, ge=1)
    """Turns after which an episode ends. Reaching it is not success. Where an environment says itself who acts next, every
    answer is a turn."""
    turn_order: tuple[str | tuple[str, ...], ...] | None = None
    """Who acts in a turn, one after another; a role may act more than once: `[drafter, critic, drafter]`. Roles in inner
    brackets act side by side, all on the state before them: `[[solver_a, solver_b], judge]`. None: the environment's own."""

    @field_validator("turn_order", mode="before")
    @classmethod
    def _read_order(cls, value: Any) -> Any:
        if value is None:
            return None
        entries = value if isinstance(value, list | tuple) else ()
        inner = [entry if isinstance(entry, list | tuple) else [entry] for entry in entries]
        if not inner or not all(agents and all(isinstance(agent, str) for agent in agents) for agents in inner):
            raise ValueError("write it as [first, second] or, where two act side by side, as [[first, second], third]")
        return tuple(entry if isinstance(entry, str) else tuple(entry) for entry in entries)


class VllmConfig(Section):
    num_replicas: int = Field(1, ge=1)
    """Servers of each model that starts on its own, behind one router: of each policy with weights of its own, and of each base
    that adapters share."""
    port: int = Field(8100, ge=1024, le=65000)
    """Of the first server that is started here; the others take the next free ones."""
    urls: tuple[Address, ...] = ()
    """Servers that run elsewhere, by base address; none are started then. They must see this machine's temporary files
    (TMPDIR) under the same paths, and ask for the key in `key_file`. Use https:// where others see the network."""
    key_file: str | None = None
    """File that holds the key of the servers at `urls`, the one that their TROUPE_VLLM_KEY_FILE names; ~ is the home folder."""
    merge_adapters: bool = False
    """Load each adapter merged into its base as full weights: faster to sample from, and one policy per server."""
    max_model_tokens: int | None = Field(None, ge=16)
    """Longest prompt and answer; None takes the model's own."""
    max_requests_at_once: int = Field(64, ge=1)
    """Candidates that one server samples together; more of them wait here."""
    kv_cache_gib: float = Field(1.0, gt=0.0)
    """On the CPU, where vLLM must be told."""
    gpu_memory_fraction: float = Field(0.5, gt=0.0, le=1.0)
    """Of the device, for each server's weights and cache."""
    start_timeout_seconds: float = Field(600.0, gt=0.0)
    request_timeout_seconds: float = Field(600.0, gt=0.0)
    """Of one candidate, or of one refresh."""
    health_timeout_seconds: float = Field(20.0, gt=0.0)
    """After which a server that does not answer its health check is given up, and its requests are sent elsewhere."""


class GenerationConfig(Section):
    engine: Literal["transformers", "vllm"] = "transformers"
    """transformers: inside this process. vllm: servers of their own, spoken to over HTTP."""
    vllm: VllmConfig = VllmConfig()
    """Used when engine is "vllm"."""
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = Field(1, ge=1)
    """CPU threads of the engine. Part of the result: other thread counts may round differently."""
    max_batch_tokens: int = Field(65536, ge=64)
    """Prompt and completion tokens that one forward batch may hold; larger requests are split in order."""
    probe_tolerance: float = Field(1e-4, gt=0.0)
    """Largest allowed difference between the engine's and the trainer's log-probabilities on the refresh probe."""


class RolloutConfig(Section):
    overlap: Literal["none", "one_step"] = "none"
    """one_step: play step k + 1 while step k updates, with the weights before that update. Needs loss.importance_cap."""
    mode: Literal["tree", "independent", "single"] = "tree"
    """tree: AT-GRPO. independent: group_size whole episodes per problem. single: the last agent plays alone."""
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
    max_refills: int = Field(0, ge=0)
    """Dynamic sampling (DAPO, arXiv 2503.14476): how often a shard replaces problems whose groups all lack a signal by new
    ones. Problems still without signal are excluded and counted; that is no error."""

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
    spot_check_fraction: float | None = Field(None, ge=0.0, le=1.0)
    """Share of a shard's recorded executions that the reward stage runs again, which costs this share of the rollout's
    sandbox time a second time. A program that ends otherwise than recorded is an error; rewards never change. None means .05
    where resources.ray_address names a cluster, whose hosts play the shards, and 0 elsewhere."""


class RewardConfig(Section):
    team_weight: float = 1.0
    """alpha in reward = alpha * team + local + own."""
    weights: Mapping[str, float] = Field(default_factory=dict)
    """Overrides of the default weights, by component: team.<name> and local.<name> of the environment, own.<name> of
    `functions`."""
    functions: tuple[str, ...] = ()
    """Reward functions of one's own, each as module:function, in the current folder or installed. What mine:brevity returns is
    the component own.brevity, of weight 1. Rollouts are chosen without them, and recorded ones stay valid."""
    sources: Mapping[str, str] = Field(default_factory=dict)
    """The digest of the source behind each of `functions`. The start fills it in."""
    shuffle_between_groups: bool = False
    """Control experiment: permute the rewards over all candidates of a step, so that nothing can be learned."""
    reuse_executions: bool = True
    """False runs every program of the rollouts again, to see that rewards do not depend on when they are computed."""
    max_failed_fraction: float = Field(0.05, ge=0.0, le=1.0)
    """Candidates of a shard that may stay without a reward because the sandbox failed; above it the stage raises."""
    deadline_seconds: float = Field(1800.0, gt=0.0)
    """How long the programs of one shard may take in all before the reward stage raises and is tried again."""
    overlong_buffer: int = Field(0, ge=0)
    """Tokens before an answer's limit within which its reward falls linearly (DAPO's soft overlong punishment); 0: none."""
    overlong_penalty: float = Field(1.0, ge=0.0)
    """What an answer of full length loses."""

    @model_validator(mode="after")
    def _components_have_names_of_their_own(self) -> "RewardConfig":
        if len(self.own_components) < len(self.functions):
            raise ValueError(
                f"functions {list(self.functions)}: two of one name would be one component; rename one of them"
            )
        return self

    @property
    def own_components(self) -> Mapping[str, str]:
        """Component -> the function that values it. **Example** {"own.brevity": "mine:brevity"}."""
        return {f"own.{name.partition(':')[2]}": name for name in self.functions}
