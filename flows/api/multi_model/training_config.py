"""The configuration of a training of several models, and what is known of each of them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from flows.api.multi_model.checked_config import (
    CheckedConfig,
    maybe_number,
    maybe_whole,
    number,
    settings_by_type,
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
    """N models trained together. Fields are checked when they are set; `batch_size` and `max_episodes` may be changed between
    two `train()` of one run.

    **Example** `MultiModelConfig(num_models=6, training_mode=TrainingMode.MIXED, max_episodes=500)`.
    """

    num_models: Annotated[int, whole(1, said="Invalid number of models: ")] = 4
    """The members."""
    model_types: list[str] = field(default_factory=lambda: list(MODEL_NAMES))
    """The type of member i is `model_types[i % len(model_types)]`; openai and claude play and are never updated."""
    model_names: dict[str, str] = field(default_factory=lambda: dict(MODEL_NAMES))
    """Type -> base: "tiny", "smollm2-135m", a model folder, a name on the hub, or the API's name of a model."""
    api_settings: Annotated[dict[str, dict[str, Any]], settings_by_type] = field(default_factory=dict)
    """Type -> fields of `policies.<name>.api`, as `{"openai": {"output_price": 10, "max_cost": 5}}`: a process spends no more
    than `max_cost`, and the next one that continues has as much again. Other settings are another run."""
    training_mode: TrainingMode = TrainingMode.MIXED
    weight_update_strategy: WeightUpdateStrategy = WeightUpdateStrategy.ASYNCHRONOUS
    max_episodes: Annotated[int, whole(1)] = 1000
    """Episodes in all; the steps are these over `update_frequency`, rounded up."""
    episode_length: Annotated[int, whole(1)] = 32
    """Joint steps of an episode."""
    update_frequency: Annotated[int, whole(2)] = 10
    """Episodes of one training step, after which weights are updated and coordinated. Each game is played twice or more, to be
    compared: a prime number of episodes are all of one game. Under GRPO each is of another game."""
    learning_rate: Annotated[float, number(0, above=True)] = 3e-4
    cooperation_strength: Annotated[float, number(0, 1)] = 0.6
    """How much of a member's return is its team's, in the modes cooperative and mixed; 0 to 1."""
    competition_intensity: Annotated[float, number(0, 1)] = 0.4
    """How much of it is its difference to the others, in the modes competitive and mixed; 0 to 1."""
    base_port: Annotated[int, whole(1024)] = 8001
    """Another than the default is refused: members are sampled in the trainer's own process, behind no port."""
    num_gpus: Annotated[int, whole(0)] = 4
    """GPUs to place members on, as member i on GPU i modulo this, as far as this machine has them; 0 computes on the CPU."""
    batch_size: Annotated[int, whole(1)] = 32
    """Answers of one forward and backward pass: the memory of an update is in proportion to it. After "GPU memory insufficient"
    it is the size that was too large, also where RLConfig named it."""
    checkpoint_dir: str = "./checkpoints/multimodel"
    save_interval: Annotated[int, whole(1)] = 100
    """Episodes between two checkpoints that are kept beyond the newest `max_checkpoints`, as a multiple of `update_frequency`;
    the default is rounded down to one. Without an effect, and refused, where `max_checkpoints` is -1."""
    max_checkpoints: Annotated[int, whole(2, also=(-1,))] = 10
    """The newest checkpoints that `train` leaves when it ends; -1 leaves all. It leaves the start (@0), the best by evaluation
    and what a restart begins with, too, so that there may be more."""
    enable_verl: bool = True
    """Compute the prompt that answers of a group share once in an update (`training.share_prompts`). No verl runs here."""
    enable_areal: bool = True
    """Play a step's games in two shards at once, with both in memory (`rollout.num_shards`), if it has two games or more, as it
    has not with a prime `update_frequency`. No AReaL runs here."""
    kv_cache_size: Annotated[int, whole(64)] = 10000
    """Tokens whose keys and values one forward batch of the sampler holds (`generation.max_batch_tokens`)."""
    enable_monitoring: bool = True
    """Send the metrics of each step to a `UnifiedMonitor`."""
    log_metrics_interval: Annotated[int, whole(1)] = 10
    """Episodes between two entries of the monitor's log."""

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
    total_reward: Annotated[float, number(float("-inf"))] = 0.0
    """The sum of its raw returns."""
    episode_count: Annotated[int, whole(0)] = 0
    win_count: Annotated[int, whole(0)] = 0
    """Episodes in which no other member earned more."""
    cooperation_score: Annotated[float, number(0, 1)] = 0.5
    """The average share of all actions that cooperated, with weight .1 on the newest step; .5 before the first."""
    last_weight_update: Annotated[float, number(0)] = 0.0
    """Seconds since 1970 of its last update; 0 before the first."""
    update_count: Annotated[int, whole(0)] = 0
    gradient_norm: Annotated[float, number(0)] = 0.0
    """Of its last update, before clipping."""
    gpu_id: Annotated[int | None, maybe_whole(0)] = None
    """The GPU that it shares; None on a CPU."""
    memory_usage: Annotated[float | None, maybe_number(0)] = None
    """MiB that this process and its workers have held at most; None before the first step."""
    lora_rank: Annotated[int, whole(1)] = 16
    lora_alpha: Annotated[float, number(0, above=True)] = 32.0
    lora_performance: Annotated[float, number(0, 1)] = 0.5
    """The share of its episodes that it won, 0 to 1; .5 before the first."""

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
