"""The sections `training` and `warm_start`: the update, and the cloning of demonstrations before the first one."""

from typing import Any, Literal

from pydantic import Field, model_validator

from components.frozen import Settings

CUDA_MICRO_BATCH = 16384
"""The `tokens_per_micro_batch` of device cuda."""
LEAST_ROW = 64
"""The fewest padded tokens that a micro-batch may be limited to."""


class TrainingConfig(Settings):
    learning_rate: float = Field(3e-4, gt=0.0)
    """For teams of chat models 1e-5 unless given."""
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
    """Optimizer steps per pass."""
    tokens_per_micro_batch: int = Field(4096, ge=LEAST_ROW)
    """Padded tokens of one pass; on device cuda 16384 unless given. A CPU is fastest if they fit its caches. Affects results:
    other sums round differently."""
    share_prompts: bool = True
    """Compute once what prompts and completions begin with in common. Affects results: other sums round differently."""
    zero_stage: Literal[0, 1, 2, 3] = 0
    """DeepSpeed ZeRO stage, configured by `infra/deepspeed/zero<stage>.json`."""
    num_ranks: int = Field(1, ge=1)
    """Processes that share one update. Affects results: other sums round differently."""
    device: Literal["cpu", "cuda"] = "cpu"
    dtype: Literal["float32", "bfloat16"] = "float32"
    """bfloat16: forward and backward pass; the optimizer updates float32 weights, which are saved with it. On a CPU faster only
    with AMX or AVX-512 BF16, and for models of 100 million parameters or more. Teams of chat models on the CPU have bfloat16
    unless this or generation.dtype is given."""
    num_threads: int = Field(1, ge=1)
    """CPU threads of one rank. Affects results."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    offload: Literal["none", "optimizer", "all"] = "none"
    """ZeRO 3: keep the optimizer, or the parameters too, in the host's memory. On device cpu this saves nothing."""
    update_timeout_seconds: float = Field(3600.0, gt=0.0)
    """Time limit of one update; then its worker is killed and the stage is retried."""

    @model_validator(mode="before")
    @classmethod
    def _fill_the_device(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("device") == "cuda":
            return {"tokens_per_micro_batch": CUDA_MICRO_BATCH, **values}
        return values

    @model_validator(mode="after")
    def _fits_device_and_stage(self) -> "TrainingConfig":
        if self.offload != "none" and self.zero_stage != 3:
            raise ValueError(f"offload {self.offload} is part of ZeRO 3: set zero_stage to 3, or offload to none")
        return self


class WarmStartConfig(Settings):
    min_success: float = Field(0.30, ge=0.0, le=1.0)
    """Cloning stops at the first check whose held-out team success (temperature 1) reaches this."""
    max_success: float = Field(0.50, ge=0.0, le=1.0)
    """A success above this at that point is an error, because too little is left to learn."""
    max_steps: int = Field(1500, ge=0)
    """Gradient steps after which a policy below min_success is an error; 0 starts from random weights, as does an
    environment without an expert under `environment.answer_format: choice`."""
    check_every: int = Field(50, ge=1)
    """Gradient steps between two checks."""
    num_check_problems: int = Field(200, ge=1)
    """Problems of a check: of the train split, outside the training range."""
    prompts_per_step: int = Field(24, ge=1)
    demonstrations_per_prompt: int = Field(4, ge=1)
    noise: float = Field(0.25, ge=0.0, le=1.0)
    """Probability that a demonstrated move is a random one, so that the clone is weak but well-formed."""
    copy_probability: float = Field(0.5, ge=0.0, le=1.0)
    """Probability that the last agent's demonstration repeats a proposal that solves."""
    learning_rate: float = Field(2e-3, gt=0.0)
    num_warmup_steps: int = Field(50, ge=0)
