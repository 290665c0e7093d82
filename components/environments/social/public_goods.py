"""public_goods: whoever cooperates pays 1, and everybody gets `share` of it. The game on which training modes differ.

Each action is better than the other whatever the others do, so that every mode has one equilibrium, and it is known in
closed form. With N members, cooperating is better if `share` is above

    own returns    1
    cooperative    1 - beta + beta / N
    competitive    1 / (1 - kappa)                        never, at kappa 1
    mixed          (1 - beta + beta / N) / (1 - kappa)    with the beta and kappa of the moment
    hierarchical   1/2 for the leader, 1 for its followers, 1 - bonus for those who are paid to follow

In `coop_compete.py` no mode moves an equilibrium; in `staged.py` only full cooperation makes all cooperate.
"""

from collections.abc import Sequence

from pydantic import Field

from components.environments.social.game import member_names, number
from components.environments.social.repeated import RepeatedGame
from components.environments.social.rules.base import Action, PayoffRules, check_actions


class PublicGoods(PayoffRules):
    """N members. Everybody earns `share * (number who cooperate)`, less 1 for whoever does."""

    num_members: int = Field(4, ge=2, le=64)
    """The players."""
    share: float = Field(0.8, gt=0.0)
    """What everybody gets of each player's cooperation, which costs that player 1."""
    noise_std: float = Field(0.05, ge=0.0)

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise.

        **Example** two of four cooperate at share .8: .6 each for them, 1.6 for the others.
        """
        check_actions(actions_N, self.num_members)
        good = self.share * sum(action == "cooperate" for action in actions_N)
        return tuple(good - (action == "cooperate") for action in actions_N)


class PublicGoodsEnvironment(RepeatedGame):
    """public_goods: cooperating costs 1 and gives everybody a share; the game on which training modes differ."""

    roles = member_names(4)
    Options = PublicGoods

    def best(self, rules: PublicGoods) -> Action:
        return "cooperate" if rules.share * rules.num_members >= 1 else "compete"

    def explain(self, rules: PublicGoods, member: int) -> str:
        return (
            f"Whoever cooperates pays 1, and every player, you too, gets {number(rules.share)} for each who cooperates."
        )
