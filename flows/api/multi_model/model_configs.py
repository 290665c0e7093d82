"""The configurations of one model: how it answers, how it learns, its adapter, and how it is watched."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from components.config import AdapterConfig
from components.errors import ConfigurationError
from flows.api.multi_model.checked_config import CheckedConfig, number, one_of, whole
from flows.api.multi_model.enums import CompetenceType, CooperationType, LLMBackend, RLAlgorithm, UpdateStrategy

_NO_OFF_POLICY = (
    "learns a value of every action from a replay buffer; the actions here are texts, of which one token alone has tens of "
    "thousands, and a critic of them is a second model of the size of the first; use ppo or grpo"
)
REFUSED_ALGORITHMS: Mapping[RLAlgorithm, str] = {
    RLAlgorithm.SAC: f"algorithm SAC {_NO_OFF_POLICY}",
    RLAlgorithm.TD3: "algorithm TD3 takes a critic's gradient in a continuous action, and texts are discrete; use ppo or grpo",
}


def _algorithm(name: str, value: Any) -> Any:
    algorithm = one_of(RLAlgorithm)(name, value)
    if algorithm in REFUSED_ALGORITHMS:
        raise ConfigurationError(REFUSED_ALGORITHMS[algorithm])
    return algorithm


def _no_dropout(name: str, value: Any) -> float:
    if value != 0:
        raise ConfigurationError(
            f"{name} {value!r}: use 0; with dropout the policy that is trained is another than the one that was sampled, whose "
            "log-probabilities the update checks"
        )
    return 0.0


def _device(name: str, value: Any) -> str:
    if value not in ("auto", "cpu", "cuda"):
        raise ConfigurationError(f"{name} {value!r}: use auto, cpu or cuda")
    return str(value)


@dataclass
class LLMConfig(CheckedConfig):
    """One model and how it answers.

    **Example** `LLMConfig(model_name="./my-model", enable_lora=True)` trains an adapter of rank 8 on a local folder.
    """

    backend: LLMBackend = LLMBackend.HUGGINGFACE
    model_name: str = "Qwen/Qwen2.5-14B-Instruct"
    """"tiny", "smollm2-135m", a model folder, a name on the hub, or the API's name."""
    device: Annotated[str, _device] = "auto"
    """auto is cuda where there is one, else cpu."""
    max_length: Annotated[int, whole(2)] = 32768
    """The most tokens of a prompt and its answer; the model's own limit holds, too."""
    temperature: Annotated[float, number(0)] = 0.7
    """0 is greedy."""
    api_key: str | None = None
    """None: from OPENAI_API_KEY or ANTHROPIC_API_KEY. It is in no JSON and no message."""
    enable_lora: bool = False
    """Answer, and learn, through an adapter; without one nothing can be updated."""
    update_strategy: UpdateStrategy = UpdateStrategy.ADAPTIVE
    api_base: str | None = None
    """The address of another server than the provider's, or of a running vLLM server."""
    lora_rank: Annotated[int, whole(1)] = 8
    lora_alpha: Annotated[float, number(0, above=True)] = 16.0
    """The adapter's change is scaled by alpha / rank."""
    min_learning_rate: Annotated[float, number(0)] = 1e-6
    max_learning_rate: Annotated[float, number(0, above=True)] = 1e-3
    """Bounds between which ADAPTIVE keeps the rate of `update_shared_parameters`."""

    def __repr__(self) -> str:
        return f"LLMConfig({', '.join(f'{name}={value!r}' for name, value in self.to_json().items())})"


@dataclass
class CooperationFactor(CheckedConfig):
    """How much of a member's return is its team's, in place of `MultiModelConfig.cooperation_strength` unless its type is NONE.

    A field that has no effect under the type is refused, unless it has its default.
    """

    cooperation_type: CooperationType = CooperationType.NONE
    cooperation_strength: Annotated[float, number(0, 1)] = 0.0
    """TEAM_BASED: the share, more than 0 to 1, in blocks of `team_size`."""
    team_size: Annotated[int, whole(1)] = 1
    """TEAM_BASED: 2 or more."""
    shared_reward_ratio: Annotated[float, number(0, 1)] = 0.5
    """SHARED_REWARDS: the share, 0 to 1, among all."""
    knowledge_transfer_rate: Annotated[float, number(0, 1)] = 0.1
    """KNOWLEDGE_TRANSFER, which is refused: the flow has no pull to a teammate, nor to a leader."""
    communication_cost: Annotated[float, number(0)] = 0.01
    """Another than the default is refused: members send no messages in these games."""


@dataclass
class CompetenceFactor(CheckedConfig):
    """How a member's skill would follow its returns; another than the default is refused, with the reason."""

    competence_type: CompetenceType = CompetenceType.GENERAL
    base_capability: Annotated[float, number(0, 1)] = 0.5
    adaptation_speed: Annotated[float, number(0, 1)] = 0.1
    specialization_level: Annotated[float, number(0)] = 0.0
    """SPECIALIZED: how strongly problems go to who is good at their kind."""
    max_capability: Annotated[float, number(0, 1)] = 1.0


@dataclass
class RLConfig(CheckedConfig):
    """The learner of a member.

    **Example** `RLConfig(algorithm=RLAlgorithm.SAC)` raises ValueError with the reason.
    """

    algorithm: Annotated[RLAlgorithm, _algorithm] = RLAlgorithm.PPO
    """PPO with a critic, or GRPO, which compares what a member could have done in one state."""
    learning_rate: Annotated[float, number(0, above=True)] = 3e-4
    """The one that was set last of it and `MultiModelConfig.learning_rate` holds; a default gives way."""
    gamma: Annotated[float, number(0, 1)] = 0.99
    """The discount of a member's later rewards."""
    gae_lambda: Annotated[float, number(0, 1)] = 0.95
    """PPO: how much of what came after a member's next action counts beside the critic's value of it."""
    value_loss_coef: Annotated[float, number(0, above=True)] = 0.5
    """PPO: the weight of the critic's squared error."""
    cooperation_factor: CooperationFactor = field(default_factory=CooperationFactor)
    competence_factor: CompetenceFactor = field(default_factory=CompetenceFactor)
    batch_size: Annotated[int, whole(1)] = 32
    """The one that was set last of it and `MultiModelConfig.batch_size` holds; a default gives way."""
    clip_ratio: Annotated[float, number(0, above=True)] = 0.2
    entropy_coef: Annotated[float, number(0)] = 0.01
    max_grad_norm: Annotated[float, number(0, above=True)] = 0.5
    ppo_epochs: Annotated[int, whole(1)] = 4


@dataclass
class LoRAConfig(CheckedConfig):
    """One adapter of a manager or a scheduler.

    **Example** `LoRAConfig(lora_id=1, rank=8, alpha=16.0).adapter()` is the adapter of our configurations.
    """

    lora_id: Annotated[int, whole(0)]
    rank: Annotated[int, whole(1)] = 16
    alpha: Annotated[float, number(0, above=True)] = 32.0
    dropout: Annotated[float, _no_dropout] = 0.0
    """Only 0: with dropout another policy is trained than was sampled."""
    target_modules: list[str] = field(default_factory=lambda: ["q_proj", "v_proj", "k_proj", "o_proj"])
    gpu_id: Annotated[int, whole(0)] = 0
    """A label: all adapters of a manager or a scheduler are on its one base, and so on its device."""
    port: Annotated[int, whole(1024)] = 8001
    """DistributedLoRAScheduler: it reserves the next free port from this on. A manager has no ports."""
    weights_path: str | None = None
    """A folder in PEFT's format; None for an adapter that changes nothing yet."""

    def adapter(self) -> AdapterConfig:
        """The adapter as the pipeline configures it."""
        return AdapterConfig(rank=self.rank, alpha=self.alpha, targets=tuple(self.target_modules))


@dataclass
class MonitoringConfig(CheckedConfig):
    """What a monitor writes and warns of."""

    enable_file_logging: bool = True
    enable_console_logging: bool = True
    log_file_path: str = "./logs/metrics.json"
    """JSON lines, one for each update."""
    metrics_sampling_interval: Annotated[float, number(0, above=True)] = 1.0
    """Seconds between two writes of what has come in."""
    history_window_size: Annotated[int, whole(1)] = 1000
    """The newest updates that statistics are of."""
    engagement_rate_threshold: Annotated[float, number(0)] = 0.1
    """Below this an alert `low_engagement` is raised."""
    error_rate_threshold: Annotated[float, number(0)] = 0.05
    """Above this `high_error_rate`."""
    response_time_threshold: Annotated[float, number(0)] = 2.0
    """Above this, in seconds, `slow_response`."""
