"""Terms of a shaped reward that no mixing matrix can hold: a rank, a directive that was followed, the price of messages."""

from collections.abc import Hashable, Sequence

from components.errors import ConfigurationError


def rank_bonus(returns_N: Sequence[float], intensity: float) -> tuple[float, ...]:
    """Each member's bonus by rank, `intensity * ((N + 1) / 2 - rank) / ((N - 1) / 2)`: rank 1 is the best, the sum is 0.

    Equal returns share the mean of their ranks. Unlike the difference to the others it does not grow with the distance,
    so that one lucky episode does not decide an update.

    **Example** returns (5, 1, 3) at intensity .4: (.4, -.4, 0); returns (2, 2): (0, 0).
    """
    num = len(returns_N)
    if num < 2:
        raise ConfigurationError(f"ranks of {num} members: use 2 or more")
    better = [sum(other > own for other in returns_N) for own in returns_N]
    equal = [sum(other == own for other in returns_N) for own in returns_N]
    ranks = [above + (ties + 1) / 2 for above, ties in zip(better, equal, strict=True)]
    return tuple(intensity * ((num + 1) / 2 - rank) / ((num - 1) / 2) for rank in ranks)


def compliance_bonus(
    actions_N: Sequence[Hashable], directives_N: Sequence[Hashable], leader: int, bonus: float = 0.1
) -> tuple[float, ...]:
    """`bonus` for each follower that took the action which the leader's directive names for it; 0 for the leader.

    A directive of None names no action, and pays nothing.

    **Example** leader 0, actions (C, C, D), directives (None, C, C): (0, .1, 0).
    """
    if not 0 <= leader < len(actions_N):
        raise ConfigurationError(f"leader {leader} of {len(actions_N)} members: use 0 to {len(actions_N) - 1}")
    return tuple(
        bonus if member != leader and directive is not None and action == directive else 0.0
        for member, (action, directive) in enumerate(zip(actions_N, directives_N, strict=True))
    )


def communication_costs(num_messages_N: Sequence[int], cost: float) -> tuple[float, ...]:
    """What each member pays for its messages, as numbers to add: `-cost * messages`.

    **Example** (2, 0) messages at .01: (-.02, 0).
    """
    return tuple(-cost * num if num else 0.0 for num in num_messages_N)
