"""public_goods: cooperating costs 1 and gives everybody a share; its rules are in `rules/public_goods.py`."""

from pydantic import Field

from components.environments.social.game import member_names, number
from components.environments.social.repeated import RepeatedGame, RepeatedOptions
from components.environments.social.rules.base import Action, Rules
from components.environments.social.rules.public_goods import PublicGoods


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
