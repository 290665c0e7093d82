"""Learning and evaluation."""

from typing import Literal

from pydantic import Field, model_validator

from components.config.defaults import (
    ADVANTAGES,
    DEVICES,
    POLICY_LOSSES,
    AdvantageName,
    ChoosingSection,
    PolicyLossName,
)
from components.frozen import Frozen
from components.user_code import is_own

BFLOAT16_LEAST = 0.01
"""Tolerances below this are for float32."""
LEAST_ROW = 64
"""The fewest padded tokens that a micro-batch may be limited to."""


class AlgorithmConfig(ChoosingSection):
    chosen_by = "advantage"
    choices = ADVANTAGES

    advantage: AdvantageName = "at_grpo"
    """at_grpo compares the candidates of one node; grpo whole episodes of one problem; dr_mas all actions of one agent on
    one problem. rloo, reinforce_pp and dr_grpo compare the groups of the rollout mode: nodes in a tree, else episodes. c3
    compares what becomes of the candidates of one node: mode nested, or tree with rewards.team_credit. gigpo is grpo and
    compares besides the actions of one agent with equal prompts. solver_value takes what an exact solver says of each action, a
    privileged signal. Your own is module:function, in the current folder or installed."""
    source: str | None = None
    """The source digest of an advantage that is not built in. Filled in at the start."""
    normalize_std: bool = True
    """Divide the centered reward by a standard deviation. rloo, solver_value: False unless set; dr_grpo, c3: always False."""
    normalize_over: Literal["group", "batch"] = "group"
    """The standard deviation of the group, or of all centered rewards of the step. reinforce_pp, solver_value: always batch."""
    leave_one_out: bool = False
    """Each reward's baseline is the mean of the others of its group, not of all (RLOO, arXiv 2402.14740). rloo, c3: always."""
    epsilon: float = Field(1e-4, gt=0.0)
    """Added to the standard deviation."""
    step_weight: float | None = Field(None, ge=0.0)
    """gigpo: weight of the comparison of actions with equal prompts beside that of whole episodes; 1 unless set."""
    step_discount: float | None = Field(None, gt=0.0, le=1.0)
    """gigpo: factor of an episode's return for each turn between an action and the end; .95 unless set."""

    @model_validator(mode="after")
    def _steps_are_compared(self) -> "AlgorithmConfig":
        steps = {"step_weight": self.step_weight, "step_discount": self.step_discount}
        if self.advantage == "gigpo" and None in steps.values():
            raise ValueError("advantage gigpo needs step_weight and step_discount: leave them out for 1 and .95")
        unused = sorted(name for name, value in steps.items() if value is not None)
        if unused and self.advantage != "gigpo" and not is_own(self.advantage):
            raise ValueError(
                f"advantage {self.advantage} has no {' and no '.join(unused)}: leave it out, or set advantage to gigpo"
            )
        return self


class LossConfig(ChoosingSection):
    chosen_by = "policy_loss"
    choices = POLICY_LOSSES

    policy_loss: PolicyLossName = "clip"
    """clip: PPO's surrogate by token. gspo: the same by sequence (arXiv 2507.18071). cispo: clipped weights on the
    log-likelihood (arXiv 2506.13585). Your own is module:function, in the current folder or installed."""
    source: str | None = None
    """The source digest of a policy loss that is not built in. Filled in at the start."""
    aggregation: Literal["token_mean", "sequence_mean", "sequence_sum", "fixed_length"] = "token_mean"
    """Reduction of the token losses: the mean over all tokens; the mean over answers of their token means; of their token sums;
    or of their token sums divided by `fixed_length` (Dr. GRPO). gspo: always sequence_mean."""
    average_over: Literal["all", "signal"] = "all"
    """The answers that the loss averages over: all sampled ones, as in TRL and verl, or only those of groups with a learning
    signal. With all, gradients shrink as more groups are entirely right or wrong, and an entropy or KL term makes those groups
    rows of the update, which then costs as much as if all had a signal. With signal, entropy and KL are averaged over those
    answers too, and no longer over all sampled ones; most presets set it."""
    fixed_length: int | None = Field(None, ge=1)
    """The constant of aggregation fixed_length: the maximal tokens of an answer."""
    clip_low: float = Field(0.2, ge=0.0)
    clip_high: float = Field(0.2, ge=0.0)
    """Bounds of the importance ratio: [1 - clip_low, 1 + clip_high]; a higher clip_high is DAPO's clip-higher. Their
    meaning depends on policy_loss: gspo's paper uses 3e-4 and 4e-4, cispo's has no lower bound (1) and a high upper one."""
    dual_clip: float | None = Field(None, gt=1.0)
    """Bound of the ratio for negative advantages (arXiv 1912.09729); None for no bound."""
    kl_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the KL estimate to the reference, the policy before training; 0 loads no reference."""
    kl_estimator: Literal["k1", "k2", "k3"] = "k3"
    """J. Schulman's estimators: log ratio, half its square, or the unbiased non-negative one. The gradient of k1 and k2 is that
    of KL(policy || reference), of k3 that of KL(reference || policy)."""
    entropy_coefficient: float = Field(0.0, ge=0.0)
    """Weight of the token entropy, subtracted from each token's loss."""
    importance_cap: float | None = Field(None, gt=0.0)
    """Truncated importance sampling between sampler and trainer: the maximal weight; None turns it off. Teams of chat models in
    bfloat16 have 2 unless given."""
    importance_level: Literal["token", "sequence"] = "token"
    """One weight per token, or the product over the answer for all its tokens."""
    importance_veto: float | None = Field(None, gt=0.0, lt=1.0)
    """Answers with a token whose ratio is below this are left out; None leaves none out. Needs importance_cap."""
    mask_truncated: bool = False
    """Leave truncated answers out of the loss; they stay in their group's baseline."""
    mismatch_tolerance: float | None = Field(1e-3, gt=0.0)
    """Largest allowed |trainer - sampler| log-probability before the first update of a batch; None turns it off. Not
    checked for batches sampled by weights of an earlier step (rollout.overlap). With bfloat16 it must be set; teams of chat
    models have 2 unless given."""

    @property
    def trains_silent_groups(self) -> bool:
        """Whether a term that needs no advantage is averaged over all sampled tokens."""
        return self.average_over == "all" and (self.kl_coefficient > 0 or self.entropy_coefficient > 0)

    @model_validator(mode="after")
    def _terms_fit_each_other(self) -> "LossConfig":
        if self.aggregation == "fixed_length" and self.fixed_length is None:
            raise ValueError("aggregation fixed_length needs fixed_length, the maximal tokens of an answer")
        if self.dual_clip is not None and self.dual_clip <= 1.0 + self.clip_high:
            raise ValueError(
                f"dual_clip {self.dual_clip} is within the clip: set it above 1 + clip_high = {1.0 + self.clip_high}"
            )
        if self.importance_veto is not None and self.importance_cap is None:
            raise ValueError("importance_veto needs importance ratios: set importance_cap too, for example 2.0")
        return self


class TrainingConfig(ChoosingSection):
    chosen_by = "device"
    choices = DEVICES

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
    """Pack a group's completions behind one copy of their prompt. Affects results: other sums round differently."""
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
    hostfile: str | None = None
    """Hosts of the ranks in DeepSpeed's format, this one first; the others are reached by ssh and share TMPDIR and the folders
    of the run. None runs all ranks on this host."""
    update_timeout_seconds: float = Field(3600.0, gt=0.0)
    """Time limit of one update; then its worker is killed and the stage is retried."""

    @model_validator(mode="after")
    def _fits_device_and_stage(self) -> "TrainingConfig":
        if self.offload != "none" and self.zero_stage != 3:
            raise ValueError(f"offload {self.offload} is part of ZeRO 3: set zero_stage to 3, or offload to none")
        return self


class EvaluationConfig(Frozen):
    every: int = Field(0, ge=0)
    """Steps between evaluations; 0 evaluates only before the first and after the last step."""
    num_problems: int = Field(500, ge=1)
    """Problems of the test split; for teams of chat models 40 unless given."""
    sampling: tuple[Literal["sample", "greedy"], ...] = ("sample", "greedy")
    """sample draws at temperature 1, or at an agent's own; greedy takes the most likely token. For teams
    of chat models sample alone unless given."""
    problems_per_block: int = Field(250, ge=1)
    """Problems played together. Affects results, because it decides batch shapes."""
