"""coop_compete: cooperate or compete, for two or for N members; a coordination game with two pure equilibria.

Which of both is reached depends on where play starts: the best response to a share rho of cooperating others is to
cooperate if `rho > 1 - cooperation_level`. So a test looks at the basin, not at one number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from components.config.bounds import check_share
from components.environments.social.game import member_names, number
from components.environments.social.repeated import NUM_MEMBERS, RepeatedGame, RepeatedOptions
from components.environments.social.rules.base import Action, Rules, check_actions, check_base_folder, cooperation
from components.errors import ConfigurationError


@dataclass(frozen=True, slots=True, kw_only=True)
class CoopCompete:
    """N members. Whoever cooperates earns with the others who do, whoever competes with the others who compete.

    With L = `cooperation_level` and rho the share of *others* who cooperate: cooperate `base + w L rho`, compete
    `base + w (1 - L) (1 - rho)`, w = `weight`. At the defaults all cooperating earn .85, all competing .8.
    """

    num_members: int = 8
    cooperation_level: float = 0.6
    weight: float = 0.25
    base_scale: float = 1.0
    difficulty: float = 0.3
    noise_std: float = 0.05
    num_steps: int = 32
    lowest_reward: float = 0.0

    def __post_init__(self) -> None:
        check_share("cooperation_level", self.cooperation_level)
        check_base_folder(self.base_scale, self.difficulty)
        if self.num_members < 2:
            raise ConfigurationError(f"num_members {self.num_members}: use 2 or more")

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise.

        **Example** eight members of which half cooperate, at level .6: .764 for these, .743 for those who compete.
        """
        check_actions(actions_N, self.num_members)
        base = check_base_folder(self.base_scale, self.difficulty)
        earned = []
        for member, action in enumerate(actions_N):
            rho = cooperation([*actions_N[:member], *actions_N[member + 1 :]])
            bonus = self.cooperation_level * rho if action == "cooperate" else (1 - self.cooperation_level) * (1 - rho)
            earned.append(base + self.weight * bonus)
        return tuple(earned)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairGame:
    """Two members: both cooperate `base + w c`, both compete `base + w (1 - c)`, otherwise `base - mismatch` for both.

    c = `cooperation_level`, w = `weight`. Two coin flips earn .7125 on average, whatever the level.
    """

    cooperation_level: float = 0.6
    weight: float = 0.25
    mismatch: float = 0.1
    base_scale: float = 1.0
    difficulty: float = 0.3
    noise_std: float = 0.05
    num_steps: int = 32
    lowest_reward: float = 0.0
    num_members: int = 2

    def __post_init__(self) -> None:
        check_share("cooperation_level", self.cooperation_level)
        check_base_folder(self.base_scale, self.difficulty)
        if self.num_members != 2:
            raise ConfigurationError(f"num_members {self.num_members}: use 2, or CoopCompete")

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each of the two earns, without noise: always the same.

        **Example** level .6: .85, .8 and, for unlike actions, .6.
        """
        check_actions(actions_N, 2)
        base, level = check_base_folder(self.base_scale, self.difficulty), self.cooperation_level
        if actions_N[0] != actions_N[1]:
            return (base - self.mismatch,) * 2
        return (base + self.weight * (level if actions_N[0] == "cooperate" else 1 - level),) * 2

    def indifference(self) -> float:
        """The chance of the other's cooperating at which both actions earn the same: `(w (1 - c) + m) / (w + 2 m)`.

        **Example** level .6: .444; above it cooperating is better.
        """
        return (self.weight * (1 - self.cooperation_level) + self.mismatch) / (self.weight + 2 * self.mismatch)


class CoopCompeteOptions(RepeatedOptions):
    """The options of coop_compete."""

    num_members: int = Field(NUM_MEMBERS, ge=2, le=64)
    """The players. Two play the game of pairs, in which unlike actions cost both `mismatch`."""
    cooperation_level: float = Field(0.6, ge=0.0, le=1.0)
    """How much more cooperating together pays than competing together: above .5 all cooperating is the better equilibrium."""
    difficulty: float = Field(0.3, ge=0.0, le=1.0)
    """Lowers what everybody earns before any bonus: `max(.1, 1 - difficulty)`."""
    mismatch: float = Field(0.1, ge=0.0)
    """What unlike actions cost each of two players."""
    noise_std: float = Field(0.05, ge=0.0)

    @property
    def roles(self) -> tuple[str, ...]:
        return member_names(self.num_members)


class CoopCompeteEnvironment(RepeatedGame[CoopCompeteOptions]):
    """coop_compete: whoever cooperates earns with the others who do, whoever competes with the others who compete."""

    Options = CoopCompeteOptions

    def rules(self, options: CoopCompeteOptions) -> Rules:
        shared = options.model_dump(include={"cooperation_level", "difficulty", "num_steps", "noise_std"})
        if options.num_members == 2:
            return PairGame(**shared, mismatch=options.mismatch)
        return CoopCompete(**shared, num_members=options.num_members)

    def best(self, rules: CoopCompete | PairGame) -> Action:
        return "cooperate" if rules.cooperation_level >= 0.5 else "compete"

    def explained(self, rules: CoopCompete | PairGame, member: int) -> str:
        together, apart = (rules.weight * share for share in (rules.cooperation_level, 1 - rules.cooperation_level))
        base = number(rules.base_scale * max(0.1, 1 - rules.difficulty))
        if isinstance(rules, PairGame):
            return (
                f"Each of you earns {base}, and {number(together)} more if both cooperate, {number(apart)} more if both "
                f"compete, {number(rules.mismatch)} less if you differ."
            )
        return (
            f"You earn {base}. If you cooperate, you earn {number(together)} more times the share of the other players who "
            f"cooperate; if you compete, {number(apart)} more times the share of the others who compete."
        )
