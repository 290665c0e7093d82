"""The section `retention`: which checkpoints and rollouts of a run garbage collection keeps. It affects no results."""

from typing import Literal

from pydantic import Field

from components.frozen import Settings


class RetentionConfig(Settings):
    newest: int = Field(5, ge=1)
    """The newest checkpoints of each policy, the final one among them; two at least, because an interrupted step begins again
    with the one before."""
    every: int = Field(0, ge=0)
    """Also those after every so many updates; 0: none."""
    evaluated: Literal["all", "best"] = "all"
    """Also the evaluated ones: all, or those with the highest held-out success for each suite and way of sampling."""
    rollouts: int | None = Field(None, ge=1)
    """The rollouts, rewards and batches of so many of the newest finished steps, besides those of a step that is not finished,
    with which a resume goes on; None: of all steps."""
