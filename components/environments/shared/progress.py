"""Progress towards a goal, as a reward component."""


def progress(before: float, after: float) -> float:
    """The fraction of the distance to the goal that an action covered, in [-1, 1].

    -1 if the new state is unsolvable (infinite distance), 0 if the old one was already.

    **Example** from distance 8 to 6: 0.25; from 2 to 7: -1.
    """
    if before == float("inf"):
        return 0.0
    return max(-1.0, min(1.0, (before - after) / before))
