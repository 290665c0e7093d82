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
from dataclasses import dataclass

from pydantic import Field

from components.environments.social.game import member_names, number
from components.environments.social.repeated import RepeatedGame, RepeatedOptions
from components.environments.social.rules.base import Action, Rules, check_actions
from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicGoods:
    """N members. Everybody earns `base + share * (number who cooperate)`, less 1 for whoever does."""

    num_members: int = 4
    share: float = 0.8
    base: float = 0.0
    noise_std: float = 0.05
    num_steps: int = 32
    lowest_reward: float = float("-inf")

    def __post_init__(self) -> None:
        if self.num_members < 2 or self.share <= 0:
            raise ConfigurationError(f"num_members {self.num_members}, share {self.share}: use 2 or more, above 0")

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise.

        **Example** two of four cooperate at share .8: .6 each for them, 1.6 for the others.
        """
        check_actions(actions_N, self.num_members)
        good = self.base + self.share * sum(action == "cooperate" for action in actions_N)
        return tuple(good - (action == "cooperate") for action in actions_N)


class PublicGoodsOptions(RepeatedOptions):
    """The options of public_goods."""

    num_members: int = Field(4, ge=2, le=64)
    """The players."""
    share: float = Field(0.8, gt=0.0)
    """What everybody gets of each player's cooperation, which costs that player 1."""
    noise_std: float = Field(0.05, ge=0.0)

    @property
    def roles(self) -> tuple[str, ...]:
        return member_names(self.num_members)


class PublicGoodsEnvironment(RepeatedGame[PublicGoodsOptions]):
    """public_goods: cooperating costs 1 and gives everybody a share; the game on which training modes differ."""

    roles = member_names(4)
    Options = PublicGoodsOptions

    def rules(self, options: PublicGoodsOptions) -> Rules:
        return PublicGoods(**options.model_dump(include={"num_members", "share", "num_steps", "noise_std"}))

    def best(self, rules: PublicGoods) -> Action:
        return "cooperate" if rules.share * rules.num_members >= 1 else "compete"

    def explained(self, rules: PublicGoods, member: int) -> str:
        return (
            f"Whoever cooperates pays 1, and every player, you too, gets {number(rules.share)} for each who cooperates."
        )
