"""Solver value: an action's advantage is what it changes in an exact solver's value of the state (CAST, arXiv:2607.25308).

`A = V(s') - V(s)`, recorded as the outcome's `value_gain`. V(s) is the baseline, so that nothing is compared and no group is
needed. The solver knows what the agents cannot see: results with it are no evidence about learning from rewards.
`normalize_std` divides by the deviation of the step's gains from 0 (their root mean square), which keeps their signs.
"""

from collections.abc import Sequence
from math import fsum, sqrt

from components.algorithms.grouping import Advantages, Rewards, flatten, unflatten
from components.config import AlgorithmConfig
from components.errors import ConfigurationError
from components.schema import ActionOutcome, Episode


def solver_advantages(episodes: Sequence[Episode], rewards_E_N_K: Rewards, algorithm: AlgorithmConfig) -> Advantages:
    """Advantages with the axes of the rewards; None where the reward or the gain is.

    An answer that could not be read changes nothing and gains 0, unless its outcome says otherwise. Raises ConfigurationError
    if no answer that was read has a gain, because the environment has no solver.

    **Example** gains (.25, 0, -.5): these, or with `normalize_std` divided by .3227 + epsilon.
    """
    outcomes = [candidate.outcome for episode in episodes for node in episode.nodes for candidate in node.candidates]
    scored = [reward is not None for reward in flatten(rewards_E_N_K)]
    _check_solver(episodes, [outcome for outcome, is_scored in zip(outcomes, scored, strict=True) if is_scored])
    gains = [_gain(outcome) if is_scored else None for outcome, is_scored in zip(outcomes, scored, strict=True)]
    known = [gain for gain in gains if gain is not None]
    scale = 1.0
    if algorithm.normalize_std and known:
        scale = sqrt(fsum(gain * gain for gain in known) / len(known)) + algorithm.epsilon
    return unflatten((None if gain is None else gain / scale for gain in gains), rewards_E_N_K)


def _gain(outcome: ActionOutcome) -> float | None:
    return 0.0 if outcome.value_gain is None and outcome.error is not None else outcome.value_gain


def _check_solver(episodes: Sequence[Episode], outcomes: Sequence[ActionOutcome]) -> None:
    gains = [outcome.value_gain for outcome in outcomes if outcome.error is None]
    if gains and all(gain is None for gain in gains):
        environments = ", ".join(sorted({episode.problem.environment for episode in episodes}))
        raise ConfigurationError(
            f"algorithm.advantage solver_value: environment {environments} has no solver that values its states; use another "
            "advantage, or an environment with one"
        )
