"""The documented enums and configurations, with the documented defaults. Each field does something, or is refused by name."""

from collections.abc import Callable, Mapping
from dataclasses import field
from enum import Enum
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from components.config import AdapterConfig
from components.config.types import Address
from components.errors import ConfigurationError
from flows.api.fields import (
    Above0,
    AtLeast0,
    Count,
    Device,
    Port,
    Share,
    Text,
    Whole,
    check_fields,
    refuse_changed,
)


class TrainingMode(Enum):
    """How the members' returns are mixed: see `components/population/training_modes.py`."""

    COOPERATIVE = "cooperative"
    COMPETITIVE = "competitive"
    MIXED = "mixed"
    HIERARCHICAL = "hierarchical"


class WeightUpdateStrategy(Enum):
    """How the members' adapters are coordinated after each update."""

    SYNCHRONIZED = "synchronized"
    ASYNCHRONOUS = "asynchronous"
    FEDERATED = "federated"
    SELECTIVE = "selective"


class LLMBackend(Enum):
    """Where a model runs. Unknown values raise ValueError "Unsupported LLM backend"."""

    HUGGINGFACE = "huggingface"
    OPENAI_API = "openai_api"
    ANTHROPIC = "anthropic"
    VLLM = "vllm"

    @classmethod
    def _missing_(cls, value: object) -> "LLMBackend":
        known = ", ".join(each.value for each in cls)
        raise ConfigurationError(f"Unsupported LLM backend: {value!r}; use one of {known}")


class UpdateStrategy(Enum):
    """Which parameters `update_shared_parameters` steps: none; all, at a rate within bounds; those whose gradient norm is above
    .05; the last layer first, one layer more with each update."""

    FROZEN = "frozen"
    ADAPTIVE = "adaptive"
    SELECTIVE = "selective"
    INCREMENTAL = "incremental"


class RLAlgorithm(Enum):
    """The learner: PPO with a critic, or GRPO, which compares what a member could have done in one state."""

    PPO = "ppo"
    GRPO = "grpo"


class EnvironmentType(Enum):
    """The games of the reference."""

    COOPERATIVE_COMPETITIVE = "cooperative_competitive"
    MULTI_AGENT_STAGED = "multi_agent_staged"
    TEAM_BATTLE = "team_battle"
    MAZE_NAVIGATION = "maze_navigation"
    SOCIAL_INTERACTION = "social_interaction"


MODEL_NAMES: Mapping[str, str] = {
    "qwen3": "Qwen/Qwen2.5-14B-Instruct",
    "openai": "gpt-4o-mini",
    "claude": "claude-3-5-haiku-20241022",
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
}
"""The documented model of each type."""
KNOWN_MODELS: Mapping[str, str] = {**MODEL_NAMES, "tiny": "tiny", "smollm2-135m": "smollm2-135m"}
"""Those, and the types that are models of this machine and need no network."""


def _refuse(is_wrong: Callable[[Any], bool], message: str) -> AfterValidator:
    """A validator that refuses values with a message, in which {} is the value."""

    def check(value: Any) -> Any:
        if is_wrong(value):
            raise ConfigurationError(message.format(value))
        return value

    return AfterValidator(check)


_NUM_MODELS = _refuse(lambda value: value < 1, "Invalid number of models: num_models {}: use 1 or more")
_MAX_CHECKPOINTS = _refuse(lambda value: value < 2 and value != -1, "max_checkpoints {}: use 2 or more, or -1 for all")
_DROPOUT = _refuse(lambda value: value not in (0, 0.1), "dropout {}: has no effect on answers; leave it out")


@check_fields
class LLMConfig:
    """One model and how it answers. A field that its backend does not read is refused by the manager that gets it.

    **Example** `LLMConfig(model_name="./my-model", enable_lora=True)` trains an adapter of rank 8 on a local folder.
    """

    backend: Annotated[LLMBackend, BeforeValidator(LLMBackend)] = LLMBackend.HUGGINGFACE
    """vllm is a running server at `api_base`: vLLM's, that of `troupe serve`, or the address that a scheduler names."""
    model_name: Text = "Qwen/Qwen2.5-14B-Instruct"
    """"tiny", "smollm2-135m", a model folder, a name on the hub, or the server's name of a model."""
    device: Device = "auto"
    """huggingface: auto is cuda where there is one, else cpu."""
    max_length: Annotated[int, Field(ge=2)] = 32768
    """The most tokens of a prompt and its answer; the model's own limit holds, too. A server counts the answer alone."""
    temperature: AtLeast0 = 0.7
    api_key: str | None = field(default=None, repr=False)
    """openai_api, anthropic, vllm. None: from OPENAI_API_KEY or ANTHROPIC_API_KEY. It is in no JSON and no message."""
    enable_lora: bool = False
    """huggingface: answer, and learn, through an adapter; without one nothing can be updated."""
    update_strategy: UpdateStrategy = UpdateStrategy.ADAPTIVE
    api_base: Address | None = None
    """vllm: the server's address with /v1. openai_api, anthropic: of another server than the provider's."""
    lora_rank: Count = 8
    lora_alpha: Above0 = 16.0

    def check_effects(self) -> None:
        """Raise ConfigurationError for a field that has no effect beside the others."""
        is_local = self.backend is LLMBackend.HUGGINGFACE
        unread = ["api_key", "api_base"] if is_local else ["device", "enable_lora"]
        if not (is_local and self.enable_lora):
            unread += ["lora_rank", "lora_alpha", "update_strategy"]
        refuse_changed(self, unread, f"has no effect with backend {self.backend.value}, enable_lora {self.enable_lora}")


@check_fields
class CooperationFactor:
    """Whose returns a member shares, in the modes cooperative and mixed; how much, says `MultiModelConfig`."""

    team_size: Count | None = None
    """Members that share, as neighbours; None: all."""


@check_fields
class CompetenceFactor:
    """What a member's skill would be a number of. The flow routes nothing by skill, so that there is nothing to set."""


@check_fields
class RLConfig:
    """The learner of the members.

    `learning_rate` and `batch_size` stand in `MultiModelConfig`, too: set one of both, and a default gives way.
    """

    algorithm: RLAlgorithm = RLAlgorithm.PPO
    learning_rate: Above0 = 3e-4
    gamma: Share = 0.99
    """PPO: the discount of a member's later rewards."""
    cooperation_factor: CooperationFactor = field(default_factory=CooperationFactor)
    competence_factor: CompetenceFactor = field(default_factory=CompetenceFactor)
    batch_size: Count = 32


@check_fields
class LoRAConfig:
    """One adapter of a manager or a scheduler.

    **Example** `LoRAConfig(lora_id=1, rank=8, alpha=16.0).adapter()` is the adapter of our configurations.
    """

    lora_id: Whole
    rank: Count = 16
    alpha: Above0 = 32.0
    dropout: Annotated[float, _DROPOUT] = 0.1
    """Adapters answer without dropout, and their new weights come from outside: another than the default, or 0, is refused."""
    target_modules: Annotated[list[Text], Field(min_length=1)] = field(
        default_factory=lambda: ["q_proj", "v_proj", "k_proj", "o_proj"]
    )
    gpu_id: Whole = 0
    """Another than 0 is refused: all adapters are on one base, and so on its device."""
    port: Port = 8001
    """Where the adapter answers programs of this machine, once its address is asked for. Several may share one."""

    def adapter(self) -> AdapterConfig:
        """The adapter as the pipeline configures it."""
        return AdapterConfig(rank=self.rank, alpha=self.alpha, targets=tuple(self.target_modules))


@check_fields
class MonitoringConfig:
    """What a monitor writes."""

    enable_file_logging: bool = True
    enable_console_logging: bool = True
    """Print each update on stderr."""
    log_file_path: Text = "./logs/metrics.json"
    """JSON lines, one for each update."""


@check_fields
class MultiModelConfig:
    """N models trained together. `batch_size` and `max_episodes` may be changed between two `train()` of one run.

    **Example** on a laptop: `MultiModelConfig(num_models=6, model_types=["tiny"], max_episodes=500)`.
    """

    num_models: Annotated[int, _NUM_MODELS] = 4
    """The members."""
    model_types: Annotated[list[Text], Field(min_length=1)] = field(default_factory=lambda: list(MODEL_NAMES))
    """The type of member i is `model_types[i % len(model_types)]`; openai and claude play and are never updated; "tiny" and
    "smollm2-135m" are models of this machine."""
    model_names: dict[Text, Text] = field(default_factory=lambda: dict(MODEL_NAMES))
    """Type -> base: "tiny", "smollm2-135m", a model folder, a name on the hub, or the API's name of a model."""
    training_mode: TrainingMode = TrainingMode.MIXED
    """How returns are mixed: by cooperation, competition, both, or for a leader."""
    weight_update_strategy: WeightUpdateStrategy = WeightUpdateStrategy.ASYNCHRONOUS
    """How adapters are coordinated after each update."""
    max_episodes: Count = 1000
    """Episodes in all: a multiple of `update_frequency`, or fewer than it, which are one step."""
    learning_rate: Above0 = 3e-4
    """Of each member's optimizer."""
    num_gpus: Whole = 4
    """GPUs to place members on, as member i on GPU i modulo this, as far as this machine has them; 0 computes on the CPU."""
    base_port: Port = 8001
    """Another than the default is refused: members are sampled in the trainer's own process, behind no port."""
    checkpoint_dir: Text = "./checkpoints/multimodel"
    """The folder of all that runs store."""
    enable_verl: bool = True
    """Compute the prompt that answers of a group share once in an update (`training.share_prompts`). No verl runs here."""
    enable_areal: bool = True
    """Play a step's games in two shards at once, with both in memory (`rollout.num_shards`), if it has two games or more, as it
    has not with a prime `update_frequency`. No AReaL runs here."""
    episode_length: Count = 32
    """Joint steps of an episode."""
    update_frequency: Annotated[int, Field(ge=2)] = 10
    """Episodes of one training step, after which weights are updated and coordinated. Each game is played twice or more, to be
    compared: a prime number of episodes are all of one game. Under GRPO each is of another game."""
    cooperation_strength: Share = 0.6
    """The share of a member's return that is its team's, in the modes cooperative and mixed."""
    competition_intensity: Share = 0.4
    """The share that is its difference to the others, in the modes competitive and mixed."""
    batch_size: Count = 32
    """Answers of one forward and backward pass: what an update holds at once is in proportion to it. After "GPU memory
    insufficient" it is the size that was too large, also where RLConfig named it."""
    max_checkpoints: Annotated[int, _MAX_CHECKPOINTS] = 10
    """The newest checkpoints that `train` leaves when it ends; -1 leaves all. It leaves the start (@0), the best by evaluation
    and what a restart begins with, too, so that there may be more."""
    kv_cache_size: Annotated[int, Field(ge=64)] = 10000
    """Tokens whose keys and values one forward batch of the sampler holds (`generation.max_batch_tokens`)."""
    enable_monitoring: bool = True
    """Send the metrics of each step to the `UnifiedMonitor` that was started last."""
    api_settings: dict[Text, dict[str, Any]] = field(default_factory=dict)
    """Type -> fields of `policies.<name>.api`, as `{"openai": {"output_price": 10, "max_cost": 5}}`: a process spends no more
    than `max_cost`, and the next one that continues has as much again. Other settings are another run."""
    episode_timeout_seconds: Above0 | None = None
    """The most seconds that an episode of a step may take on average. A step that takes longer ends in asyncio.TimeoutError
    "Episode timeout", also if it hangs; None for no limit."""

    def step_length(self) -> int:
        """The episodes of one training step."""
        return min(self.update_frequency, self.max_episodes)

    def member_types(self) -> dict[str, str]:
        """The type of each member by its documented name.

        **Example** two members by default: `{"model_0_qwen3": "qwen3", "model_1_openai": "openai"}`.
        """
        types = [self.model_types[index % len(self.model_types)] for index in range(self.num_models)]
        return {f"model_{index}_{kind}": kind for index, kind in enumerate(types)}
