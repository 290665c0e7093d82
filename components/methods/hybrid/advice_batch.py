"""What a language model learns from a step of play: one row for each button that it drew."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from components.algorithms.batching import join_by_prompt
from components.hybrid.language_model import Draw
from components.identity import GroupKey
from components.schema import PolicyVersion, TrainBatch, TrainGroup

_EPSILON = 1e-6


def advice_batch(
    draws: Sequence[Draw],
    draws_T_N: Sequence[Sequence[int | None]],
    advantages_T_N: NDArray[np.float32],
    *,
    agent: str,
    step: int,
    version: PolicyVersion,
) -> TrainBatch:
    """The rows of the draws that were played, with their advantages less the mean, divided by the standard deviation.

    `draws_T_N` is the number of the draw behind each decision of step T in game N, None where somebody else decided. Draws that
    nobody played are left out. Rows of equal prompts are one group, so that the prompt is computed once.

    **Example** draws 0 and 1 with advantages 3 and 1: 1 and -1.
    """
    earned = {
        draw: float(advantages_T_N[t, n])
        for t, draws_N in enumerate(draws_T_N)
        for n, draw in enumerate(draws_N)
        if draw is not None
    }
    values = np.array([*earned.values()], np.float64)
    spread = values.std() if len(values) else 0.0
    normalised = (values - values.mean()) / (spread + _EPSILON) if spread > 0 else np.zeros(len(values))
    groups = [
        TrainGroup(
            group=GroupKey(problem_id="advice", episode=draw, turn=0, agent=agent),
            prompt_tokens=draws[draw].prompt_tokens,
            completions_K_T=(draws[draw].tokens,),
            sampler_logprobs_K_T=(draws[draw].logprobs,),
            advantages_K=(advantage,),
            choices=draws[draw].choices,
        )
        for draw, advantage in zip(earned, normalised.tolist(), strict=True)
    ]
    return TrainBatch(
        policy=version.policy,
        step=step,
        groups=join_by_prompt(groups) if spread > 0 else (),
        num_groups_without_signal=0 if spread > 0 else len(groups),
        metrics={"num_draws": float(len(values)), "mean_advantage": float(values.mean()) if len(values) else 0.0},
        version=version,
        agents=(agent,),
    )
