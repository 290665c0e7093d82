"""The section `loss`: the policy loss, and what each built-in one sets."""

from typing import Annotated, ClassVar, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from components.config.variants import CUSTOM_TAG, ReadVariant, Variant, tag_custom

Aggregation = Literal["token_mean", "sequence_mean", "sequence_sum", "fixed_length"]


class LossConfig(Variant):
    """What every policy loss reads. What a variant fixes is a constant of its class."""

    chosen_by = "policy_loss"

    policy_loss: str
    source: str | None = None
    """The source digest of a function of your own. Filled in at the start."""
    aggregation: Aggregation = "token_mean"
    """Reduction of the token losses: the mean over all tokens; the mean over answers of their token means; of their token sums;
    or of their token sums divided by `fixed_length` (Dr. GRPO)."""
    average_over: Literal["all", "nonzero", "session"] = "all"
    """The answers that the loss averages over. all: every sampled one, as in TRL and verl. session: all, and each episode
    counts the same however many answers it has: the mean over episodes of the mean within each. nonzero: those of groups with a
    learning signal, whose advantages are not all zero. With all, gradients shrink as more groups are entirely right or wrong,
    and an entropy or KL term makes those groups rows of the update, which then costs as much as if all had a signal. With
    nonzero, entropy and KL are averaged over the same answers, and no longer over all sampled ones; most presets set it."""
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
    reference_every: int | None = Field(None, ge=1)
    """The reference follows the policy slowly: it is the policy before the newest step that is a multiple of this. None: it
    stays the policy before training."""
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
        return self.average_over != "nonzero" and (self.kl_coefficient > 0 or self.entropy_coefficient > 0)

    @model_validator(mode="after")
    def _terms_fit_each_other(self) -> "LossConfig":
        if self.average_over == "session" and self.aggregation not in ("token_mean", "sequence_mean"):
            raise ValueError(
                f"average_over session with aggregation {self.aggregation}, which adds up the answers of an episode instead of "
                "averaging them: use token_mean or sequence_mean"
            )
        if self.aggregation == "fixed_length" and self.fixed_length is None:
            raise ValueError("aggregation fixed_length needs fixed_length, the maximal tokens of an answer")
        if self.dual_clip is not None and self.dual_clip <= 1.0 + self.clip_high:
            raise ValueError(
                f"dual_clip {self.dual_clip} is within the clip: set it above 1 + clip_high = {1.0 + self.clip_high}"
            )
        if self.reference_every is not None and self.kl_coefficient == 0:
            raise ValueError(
                f"reference_every {self.reference_every} moves the reference of the KL term, and kl_coefficient is 0: set "
                "kl_coefficient, for example 0.05, or leave out reference_every"
            )
        if self.importance_veto is not None and self.importance_cap is None:
            raise ValueError("importance_veto needs importance ratios: set importance_cap too, for example 2.0")
        return self


class _BuiltIn(LossConfig):
    source: ClassVar[str | None] = None  # type: ignore[misc]


class ClipLoss(_BuiltIn):
    """PPO's surrogate by token."""

    policy_loss: Literal["clip"] = "clip"


class GspoLoss(_BuiltIn):
    """PPO's surrogate by sequence (arXiv 2507.18071): one ratio per answer, averaged over answers."""

    policy_loss: Literal["gspo"] = "gspo"
    aggregation: ClassVar[Aggregation] = "sequence_mean"  # type: ignore[misc]
    fixed_length: ClassVar[int | None] = None  # type: ignore[misc]


class CispoLoss(_BuiltIn):
    """Clipped weights on the log-likelihood (arXiv 2506.13585)."""

    policy_loss: Literal["cispo"] = "cispo"
    dual_clip: ClassVar[float | None] = None  # type: ignore[misc]


class CustomLoss(LossConfig):
    """A function of your own, in the current folder or installed."""

    policy_loss: str = Field(pattern=":")
    """module:function."""


Loss = Annotated[
    Annotated[ClipLoss, Tag("clip")]
    | Annotated[GspoLoss, Tag("gspo")]
    | Annotated[CispoLoss, Tag("cispo")]
    | Annotated[CustomLoss, Tag(CUSTOM_TAG)],
    Discriminator(tag_custom("policy_loss")),
    ReadVariant("policy_loss", default="clip", takes_custom=True),
]
