"""coop_compete: cooperate or compete, for two or for N members; a coordination game with two pure equilibria.

Which of both is reached depends on where play starts: the best response to a share rho of cooperating others is to
cooperate if `rho > 1 - cooperation_level`. So a test looks at the basin, not at one number.
"""

from collections.abc import Sequence
from typing import ClassVar

from pydantic import Field

from components.environments.social.game import number
from components.environments.social.repeated import NUM_MEMBERS, RepeatedGame
from components.environments.social.rules.base import Action, PayoffRules, base_payoff, check_actions, cooperation

WEIGHT = 0.25
"""The most that others' doing the same pays."""


class CoopCompete(PayoffRules):
    """N members. Whoever cooperates earns with the others who do, whoever competes with the others who compete.

    With L = `cooperation_level` and rho the share of *others* who cooperate: cooperate `base + w L rho`, compete
    `base + w (1 - L) (1 - rho)`, w = WEIGHT. At the defaults all cooperating earn .85, all competing .8.
    """

    num_members: int = Field(NUM_MEMBERS, ge=2, le=64)
    """The players. Two play the game of pairs, in which unlike actions cost both `mismatch`."""
    cooperation_level: float = Field(0.6, ge=0.0, le=1.0)
    """How much more cooperating together pays than competing together: above .5 all cooperating is the better equilibrium."""
    difficulty: float = Field(0.3, ge=0.0, le=1.0)
    """Lowers what everybody earns before any bonus: `max(.1, 1 - difficulty)`."""
    mismatch: float = Field(0.1, ge=0.0)
    """What unlike actions cost each of two players."""
    noise_std: float = Field(0.05, ge=0.0)
    lowest_reward: ClassVar[float] = 0.0

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise.

        **Example** eight members of which half cooperate, at level .6: .764 for these, .743 for those who compete.
        """
        check_actions(actions_N, self.num_members)
        earned = []
        for member, action in enumerate(actions_N):
            rho = cooperation([*actions_N[:member], *actions_N[member + 1 :]])
            bonus = self.cooperation_level * rho if action == "cooperate" else (1 - self.cooperation_level) * (1 - rho)
            earned.append(base_payoff(self.difficulty) + WEIGHT * bonus)
        return tuple(earned)


class PairGame(CoopCompete):
    """Two members: both cooperate `base + w c`, both compete `base + w (1 - c)`, otherwise `base - mismatch` for both.

    c = `cooperation_level`, w = WEIGHT. Two coin flips earn .7125 on average, whatever the level.
    """

    num_members: int = Field(2, ge=2, le=2)

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each of the two earns, without noise: always the same.

        **Example** level .6: .85, .8 and, for unlike actions, .6.
        """
        check_actions(actions_N, 2)
        base, level = base_payoff(self.difficulty), self.cooperation_level
        if actions_N[0] != actions_N[1]:
            return (base - self.mismatch,) * 2
        return (base + WEIGHT * (level if actions_N[0] == "cooperate" else 1 - level),) * 2


class CoopCompeteEnvironment(RepeatedGame):
    """coop_compete: whoever cooperates earns with the others who do, whoever competes with the others who compete."""

    Options = CoopCompete

    def rules(self, options: CoopCompete) -> PayoffRules:
        return PairGame(**options.model_dump()) if options.num_members == 2 else options

    def best(self, rules: CoopCompete) -> Action:
        return "cooperate" if rules.cooperation_level >= 0.5 else "compete"

    def explain(self, rules: CoopCompete, member: int) -> str:
        together, apart = (WEIGHT * share for share in (rules.cooperation_level, 1 - rules.cooperation_level))
        base = number(base_payoff(rules.difficulty))
        if isinstance(rules, PairGame):
            return (
                f"Each of you earns {base}, and {number(together)} more if both cooperate, {number(apart)} more if both "
                f"compete, {number(rules.mismatch)} less if you differ."
            )
        return (
            f"You earn {base}. If you cooperate, you earn {number(together)} more times the share of the other players who "
            f"cooperate; if you compete, {number(apart)} more times the share of the others who compete."
        )
