"""The known equilibria of Kuhn poker (H. W. Kuhn, "Simplified two-person poker", 1950), by card and history."""

VALUE = -1 / 18
"""What the first player earns a game between equilibria."""


def equilibrium(alpha: float) -> dict[str, dict[str, float]]:
    """The equilibrium in which the first player bets J, a bluff, with probability `alpha`, 0 to 1/3."""
    first = {"J": alpha, "Q": 0.0, "K": 3 * alpha, "Jpb": 0.0, "Qpb": alpha + 1 / 3, "Kpb": 1.0}
    second = {"Jp": 1 / 3, "Qp": 0.0, "Kp": 1.0, "Jb": 0.0, "Qb": 1 / 3, "Kb": 1.0}
    return {information: {"p": 1 - bet, "b": bet} for information, bet in (first | second).items()}
