"""coop_compete: cooperate or compete, for two or for N members; its rules are in `rules/coop_compete.py`."""

from pydantic import Field

from components.environments.social.game import member_names, number
from components.environments.social.repeated import NUM_MEMBERS, RepeatedGame, RepeatedOptions
from components.environments.social.rules.base import Action, Rules
from components.environments.social.rules.coop_compete import CoopCompete, PairGame


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
