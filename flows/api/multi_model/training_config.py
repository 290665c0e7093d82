"""The configuration of a training of several models, and what is known of each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from flows.api.multi_model.checked_config import (
    Check,
    CheckedConfig,
    flag,
    maybe_number,
    number,
    one_of,
    text,
    text_by_text,
    texts,
    whole,
)
from flows.api.multi_model.enums import TrainingMode, WeightUpdateStrategy

MODEL_NAMES: Mapping[str, str] = {
    "qwen3": "Qwen/Qwen2.5-14B-Instruct",
    "openai": "gpt-4o-mini",
    "claude": "claude-3-5-haiku-20241022",
    "llama3": "meta-llama/Llama-3.1-8B-Instruct",
}
"""The documented model of each type."""


@dataclass
class MultiModelConfig(CheckedConfig):
    """N models trained together. Fields are checked when they are set; `batch_size` may be changed between two `train()`.

    **Example** `MultiModelConfig(num_models=6, training_mode=TrainingMode.MIXED, max_episodes=500)`.
    """

    num_models: int = 4
    """The members."""
    model_types: list[str] = field(default_factory=lambda: list(MODEL_NAMES))
    """The type of member i is `model_types[i % len(model_types)]`; openai and claude play and are never updated."""
    model_names: dict[str, str] = field(default_factory=lambda: dict(MODEL_NAMES))
    """Type -> base: "tiny", "smollm2-135m", a model folder, a name on the hub, or the API's name of a model."""
    training_mode: TrainingMode = TrainingMode.MIXED
    weight_update_strategy: WeightUpdateStrategy = WeightUpdateStrategy.ASYNCHRONOUS
    max_episodes: int = 1000
    """Episodes in all; the steps are these over `update_frequency`, rounded up."""
    episode_length: int = 32
    """Joint steps of an episode."""
    update_frequency: int = 10
    """Episodes of one training step, after which weights are updated and coordinated."""
    learning_rate: float = 3e-4
    cooperation_strength: float = 0.6
    """How much of a member's return is its team's, in the modes cooperative and mixed; 0 to 1."""
    competition_intensity: float = 0.4
    """How much of it is its difference to the others, in the modes competitive and mixed; 0 to 1."""
    base_port: int = 8001
    """Of the first vLLM server, if there are any; the others use the next free ports."""
    num_gpus: int = 4
    """GPUs to place members on, as member i on GPU i modulo this, as far as this machine has them; 0 computes on the CPU."""
    batch_size: int = 32
    """Answers of one forward and backward pass: the memory of an update is in proportion to it."""
    checkpoint_dir: str = "./checkpoints/multimodel"
    save_interval: int = 100
    """Episodes between two checkpoints that are kept beyond the newest `max_checkpoints`."""
    max_checkpoints: int = 10
    """The newest checkpoints that are kept; -1 keeps all. The final and the best ones are never deleted."""
    enable_verl: bool = True
    """Compute the prompt that answers of a group share once in an update (`training.share_prompts`). No verl runs here."""
    enable_areal: bool = True
    """Play a step's episodes in two shards at once, with both in memory (`rollout.num_shards`). No AReaL runs here."""
    kv_cache_size: int = 10000
    """Tokens whose keys and values one forward batch of the sampler holds (`generation.max_batch_tokens`)."""
    enable_monitoring: bool = True
    """Send the metrics of each step to a `UnifiedMonitor`."""
    log_metrics_interval: int = 10
    """Episodes between two entries of the monitor's log."""

    checks: ClassVar[Mapping[str, Check]] = {
        "num_models": whole(1, said="Invalid number of models: "),
        "model_types": texts,
        "model_names": text_by_text,
        "training_mode": one_of(TrainingMode),
        "weight_update_strategy": one_of(WeightUpdateStrategy),
        "max_episodes": whole(1),
        "episode_length": whole(1),
        "update_frequency": whole(2),
        "learning_rate": number(0, above=True),
        "cooperation_strength": number(0, 1),
        "competition_intensity": number(0, 1),
        "base_port": whole(1024),
        "num_gpus": whole(0),
        "batch_size": whole(1),
        "checkpoint_dir": text,
        "save_interval": whole(1),
        "max_checkpoints": whole(2, also=(-1,)),
        "enable_verl": flag,
        "enable_areal": flag,
        "kv_cache_size": whole(64),
        "enable_monitoring": flag,
        "log_metrics_interval": whole(1),
    }

    def member_types(self) -> dict[str, str]:
        """The type of each member by its documented name.

        **Example** two members by default: `{"model_0_qwen3": "qwen3", "model_1_openai": "openai"}`.
        """
        types = [self.model_types[index % len(self.model_types)] for index in range(self.num_models)]
        return {f"model_{index}_{kind}": kind for index, kind in enumerate(types)}


@dataclass
class ModelState(CheckedConfig):
    """What is known of one member, over the episodes that it played."""

    model_id: str
    model_type: str
    model_name: str
    total_reward: float = 0.0
    """The sum of its raw returns."""
    episode_count: int = 0
    win_count: int = 0
    """Episodes in which no other member earned more."""
    cooperation_score: float = 0.5
    """The average share of all actions that cooperated, with weight .1 on the newest step; .5 before the first."""
    last_weight_update: float = 0.0
    """Seconds since 1970 of its last update; 0 before the first."""
    update_count: int = 0
    gradient_norm: float = 0.0
    """Of its last update, before clipping."""
    gpu_id: int = 0
    memory_usage: float | None = None
    """MiB that the run's processes have held at most; None before the first step."""
    lora_rank: int = 16
    lora_alpha: float = 32.0
    lora_performance: float = 0.5
    """Its competence, 0 to 1."""

    checks: ClassVar[Mapping[str, Check]] = {
        **dict.fromkeys(("model_id", "model_type", "model_name"), text),
        **dict.fromkeys(("episode_count", "win_count", "update_count", "gpu_id"), whole(0)),
        **dict.fromkeys(("last_weight_update", "gradient_norm"), number(0)),
        **dict.fromkeys(("cooperation_score", "lora_performance"), number(0, 1)),
        "total_reward": number(float("-inf")),
        "memory_usage": maybe_number(0),
        "lora_rank": whole(1),
        "lora_alpha": number(0, above=True),
    }

    def after_step(
        self, mean_return: float, num_episodes: int, *, num_won: int, cooperated: float | None
    ) -> "ModelState":
        """The state after a step of that many episodes; `cooperated` is None in games without cooperation."""
        score = self.cooperation_score if cooperated is None else 0.9 * self.cooperation_score + 0.1 * cooperated
        return replace(
            self,
            total_reward=self.total_reward + mean_return * num_episodes,
            episode_count=self.episode_count + num_episodes,
            win_count=self.win_count + num_won,
            cooperation_score=score,
        )
