"""Kuhn poker: three cards, one bet; the smallest poker with bluffs, and with known equilibria.

Both players pay 1 and get one of J, Q, K. In turn they pass or bet 1 more; a bet is answered by a call (bet) or a fold
(pass). The first player loses 1/18 a game between equilibria (H. W. Kuhn, "Simplified two-person poker", 1950).
"""

from dataclasses import dataclass, replace
from itertools import permutations

from components.errors import ConfigurationError
from components.population.exploitability import CHANCE, END

CARDS = ("J", "Q", "K")
VALUE = -1 / 18
"""What the first player earns a game between equilibria."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KuhnState:
    """`cards` has one card a player, nothing before the deal; `history` is of p (pass) and b (bet)."""

    cards: tuple[str, ...] = ()
    history: str = ""


class KuhnPoker:
    """The game as a tree (`exploitability.TreeGame`)."""

    def root(self) -> KuhnState:
        """The state before the deal."""
        return KuhnState()

    def player(self, state: KuhnState) -> int:
        """Who acts."""
        if not state.cards:
            return CHANCE
        return END if state.history in ("pp", "bp", "bb", "pbp", "pbb") else len(state.history) % 2

    def chances(self, state: KuhnState) -> tuple[tuple[str, float], ...]:
        """The six deals, as two letters."""
        return tuple(("".join(pair), 1 / 6) for pair in permutations(CARDS, 2))

    def actions(self, state: KuhnState) -> tuple[str, ...]:
        """Pass and bet; after a bet they mean fold and call."""
        return ("p", "b")

    def child(self, state: KuhnState, action: str) -> KuhnState:
        """The state after a deal or an action."""
        if not state.cards:
            return KuhnState(cards=tuple(action))
        return replace(state, history=state.history + action)

    def payoff(self, state: KuhnState) -> float:
        """What the first player earns: the other's part of the pot.

        **Example** K against Q: pp 1, bb 2, bp 1, pbp -1.
        """
        if state.history == "bp":
            return 1.0
        if state.history == "pbp":
            return -1.0
        stake = 2.0 if state.history.endswith("bb") else 1.0
        return stake if CARDS.index(state.cards[0]) > CARDS.index(state.cards[1]) else -stake

    def information(self, state: KuhnState) -> str:
        """The own card and the history. Its length tells the player: after 0 or 2 actions the first, after 1 the second.

        **Example** "K" first with a king, "Kpb" first after passing it and a bet, "Qb" second with a queen after a bet.
        """
        return state.cards[len(state.history) % 2] + state.history


def equilibrium(alpha: float) -> dict[str, dict[str, float]]:
    """The equilibrium in which the first player bets J, a bluff, with probability `alpha`, 0 to 1/3.

    It bets K by 3 alpha, and calls with Q by alpha + 1/3. The second player has one equilibrium.

    **Example** alpha 1/3: J bets by 1/3, K always, Q calls by 2/3.
    """
    if not 0 <= alpha <= 1 / 3:
        raise ConfigurationError(f"alpha {alpha}: use 0 to 1/3")
    first = {"J": alpha, "Q": 0.0, "K": 3 * alpha, "Jpb": 0.0, "Qpb": alpha + 1 / 3, "Kpb": 1.0}
    second = {"Jp": 1 / 3, "Qp": 0.0, "Kp": 1.0, "Jb": 0.0, "Qb": 1 / 3, "Kb": 1.0}
    return {information: {"p": 1 - bet, "b": bet} for information, bet in (first | second).items()}
