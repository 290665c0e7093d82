"""The section `algorithm`: the advantage, and what each built-in one sets."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field, model_validator

from components.config.choices import Choice, ChoosingSection, name_of_choice
from components.user_code import is_own

ADVANTAGES: Mapping[str, Choice] = {
    "at_grpo": Choice(),
    "grpo": Choice(),
    "dr_mas": Choice(),
    "rloo": Choice(
        sets={"normalize_std": False},
        fixes={"leave_one_out": True},
        refusal="advantage rloo is the leave-one-out baseline: leave out leave_one_out, or use grpo",
    ),
    "dr_grpo": Choice(
        fixes={"normalize_std": False},
        refusal="advantage dr_grpo does not divide by a deviation: leave out normalize_std, or use grpo",
    ),
    "reinforce_pp": Choice(
        fixes={"leave_one_out": False, "normalize_std": True, "normalize_over": "batch"},
        refusal="advantage reinforce_pp normalises over the batch and has no group: leave out normalize_std, normalize_over "
        "and leave_one_out, or use grpo with normalize_over batch",
    ),
    "c3": Choice(
        fixes={"leave_one_out": True, "normalize_std": False},
        refusal="advantage c3 is the leave-one-out baseline and divides by no deviation: leave out leave_one_out and "
        "normalize_std, or use at_grpo",
    ),
    "role_baseline": Choice(
        fixes={"normalize_std": False, "leave_one_out": False},
        refusal="advantage role_baseline divides by no deviation: leave out normalize_std and leave_one_out",
    ),
    "role_mean": Choice(
        sets={"normalize_std": False},
        fixes={"leave_one_out": False, "normalize_over": "batch"},
        refusal="advantage role_mean compares with all returns of an agent: leave out leave_one_out and normalize_over",
    ),
    "role_group": Choice(sets={"normalize_std": False}),
    "gae": Choice(
        sets={"trace": 0.95, "value_coefficient": 0.5},
        fixes={"normalize_std": False, "leave_one_out": False},
        refusal="advantage gae takes a critic's values and divides by no deviation: leave out normalize_std and leave_one_out",
    ),
    "gigpo": Choice(sets={"step_weight": 1.0, "step_discount": 0.95}),
    "solver_value": Choice(
        sets={"normalize_std": False},
        fixes={"leave_one_out": False, "normalize_over": "batch"},
        refusal="advantage solver_value compares no actions: leave out leave_one_out and normalize_over",
    ),
}
AdvantageName = Annotated[str, name_of_choice(ADVANTAGES)]


class AlgorithmConfig(ChoosingSection):
    chosen_by = "advantage"
    choices = ADVANTAGES

    advantage: AdvantageName = "at_grpo"
    """at_grpo compares the candidates of one node; grpo whole episodes of one problem; dr_mas all actions of one agent on
    one problem. rloo, reinforce_pp and dr_grpo compare the groups of the rollout mode: nodes in a tree, else episodes. c3
    compares what becomes of the candidates of one node: mode nested, or tree with rewards.team_credit. gigpo is grpo and
    compares besides the actions of one agent with equal prompts. solver_value takes what an exact solver says of each action, a
    privileged signal. In a population role_baseline takes an agent's return less its average return in that turn (SPIRAL),
    role_mean less the mean of the step (MARSHAL), and role_group less that of the problem's replicas; gae compares it with
    what a critic expects, which is trained beside the policy (PPO). Your own is module:function, in the current folder or
    installed."""
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
    trace: float | None = Field(None, ge=0.0, le=1.0)
    """gae: lambda, how much of what came after an agent's next action counts beside the critic's value of it (arXiv
    1506.02438); 1 takes whole returns. .95 unless set."""
    value_coefficient: float | None = Field(None, gt=0.0)
    """gae: weight of the critic's squared error in the loss, whose gradient also reaches the policy's layers; .5 unless set."""

    @model_validator(mode="after")
    def _fields_are_of_the_advantage(self) -> "AlgorithmConfig":
        for owner, names, defaults in (
            ("gigpo", ("step_weight", "step_discount"), "1 and .95"),
            ("gae", ("trace", "value_coefficient"), ".95 and .5"),
        ):
            given = [name for name in names if getattr(self, name) is not None]
            if self.advantage == owner and len(given) < len(names):
                raise ValueError(f"advantage {owner} needs {' and '.join(names)}: leave them out for {defaults}")
            if given and self.advantage != owner and not is_own(self.advantage):
                raise ValueError(
                    f"advantage {self.advantage} has no {' and no '.join(sorted(given))}: leave it out, or set advantage to "
                    f"{owner}"
                )
        return self
