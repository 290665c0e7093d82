"""Generalised advantage estimation (arXiv 1506.02438): what an agent's action earned beyond what its critic expected.

An agent's next action may be several moves later, as others act between. Its credits are returns, which hold the rewards of
all moves from an action on, so that the advantages follow from the returns and values at its own actions alone.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Credited:
    """One action: whose episode it is of (an agent's, in one episode), its move there, and its discounted return from it on."""

    chain: Hashable
    move: int
    earned: float


def gae_advantages(
    actions: Sequence[Credited], values: Sequence[float], *, discount: float, trace: float
) -> list[float]:
    """The advantage of each action, in the order given; `values` are what the critic expects to be earned from each on.

    With c = discount ** (moves between) and the chain's next action marked ':

        A = G - V + c (V' - G' + trace A')

    which is the sum of `trace`-weighted errors r + c V' - V with r = G - c G', what the moves between paid.

    **Example** discount .9, trace .5, two actions in a row that pay 1 and 2, values 1 and 1: G is (2.8, 2), and A is
    (2.8 - 1 + .9 (1 - 2 + .5), 1) = (1.35, 1).
    """
    chains: dict[Hashable, list[int]] = {}
    for index, action in enumerate(actions):
        chains.setdefault(action.chain, []).append(index)
    advantages = [0.0] * len(actions)
    for indices in chains.values():
        indices.sort(key=lambda index: actions[index].move)
        after: int | None = None
        for index in reversed(indices):
            action = actions[index]
            advantages[index] = action.earned - values[index]
            if after is not None:
                later = actions[after]
                assert later.move > action.move, f"chain {action.chain!r} acts twice in move {action.move}"
                ahead = values[after] - later.earned + trace * advantages[after]
                advantages[index] += discount ** (later.move - action.move) * ahead
            after = index
    return advantages
