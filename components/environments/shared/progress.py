"""Progress towards a goal, as a reward component and as a solver's value."""

LEAST_VALUE = -2.0
"""The value of a dead end."""


def progress(before: float, after: float) -> float:
    """The fraction of the distance to the goal that an action covered, in [-1, 1].

    -1 if the new state is unsolvable (infinite distance), 0 if the old one was already.

    **Example** from distance 8 to 6: 0.25; from 2 to 7: -1.
    """
    if before == float("inf"):
        return 0.0
    return max(-1.0, min(1.0, (before - after) / before))


def value_gain(before: float, after: float, start: float) -> float:
    """V(after) - V(before) of exact distances, V = -(distance / start), at least `LEAST_VALUE`.

    The scale is the distance of the problem's start: its value is -1, a solved state has 0. Dead ends, at an infinite distance,
    and states more than twice as far as the start have the least value.

    **Example** start 8: from 8 to 6 gains .25, from 6 into a dead end -1.25, from a dead end 0.
    """
    return max(LEAST_VALUE, -after / start) - max(LEAST_VALUE, -before / start)
