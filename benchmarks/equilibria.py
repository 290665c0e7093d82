"""Pure equilibria, by looking at every deviation of every member from every joint action."""

from collections.abc import Callable, Sequence
from itertools import product

from components.environments.social.rules.base import ACTIONS, Action

Payoffs = Callable[[Sequence[Action]], tuple[float, ...]]
_TOLERANCE = 1e-12


def deviation_gains(payoffs: Payoffs, actions_N: Sequence[Action]) -> tuple[float, ...]:
    """What each member would gain by its other action, while all others keep theirs.

    **Example** all eight cooperate in `TeamBattle`: .0875 each.
    """
    earned = payoffs(actions_N)
    gains = []
    for member, action in enumerate(actions_N):
        other = ACTIONS[1 - ACTIONS.index(action)]
        gains.append(payoffs([*actions_N[:member], other, *actions_N[member + 1 :]])[member] - earned[member])
    return tuple(gains)


def pure_equilibria(payoffs: Payoffs, num_members: int) -> tuple[tuple[Action, ...], ...]:
    """All joint actions from which nobody gains by deviating alone, ties allowed; `2 ** num_members` are looked at.

    **Example** `PairGame`: both compete, both cooperate.
    """
    return tuple(
        actions_N
        for actions_N in product(ACTIONS, repeat=num_members)
        if max(deviation_gains(payoffs, actions_N)) <= _TOLERANCE
    )
