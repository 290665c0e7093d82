"""What a decision is credited with: not the reward of its own step alone, but that of the next few steps."""

from collections.abc import Sequence


def n_step_returns(rewards_T: Sequence[float], steps: int, discount: float = 1.0) -> list[float]:
    """The discounted sum of each step's reward and the `steps - 1` rewards after it, up to the end of the episode (T).

    `sum over k < steps of discount^k * r_(t+k)`, without the value of a later state (Sutton and Barto, 2018, eq. 7.1).

    **Example** rewards 0, 0, 1 over 2 steps, discount .5: 0, .5, 1.
    """
    assert steps >= 1, f"returns over {steps} steps"
    weights = [discount**k for k in range(steps)]
    return [
        sum(weight * reward for weight, reward in zip(weights, rewards_T[t : t + steps], strict=False))
        for t in range(len(rewards_T))
    ]
