"""team_battle: two teams of four; one team's cooperation is the other team's prey.

With `own` and `opp` the shares of each team that cooperate, a member earns `.25 (own - .5)`, and besides `.15 opp` if
it competes or `-.05 (1 - own)` if it cooperates. The only pure equilibria are one team cooperating and the other
competing. There the cooperating team earns .125 a member and the exploiting one .025: it takes, but has nobody at home
who gives.
"""

from collections.abc import Sequence

from pydantic import Field

from components.environments.social.repeated import Repeated, WarmedUpGame
from components.environments.social.rules.base import Action, PayoffRules, check_actions, cooperation

TEAM_SIZE = 4


class TeamBattle(PayoffRules):
    """Members 0 to 3 against 4 to 7. In the first `warmup_episodes` nothing is at stake: everybody earns 0."""

    warmup_episodes: int = Field(10, ge=0)
    """The first training problems, in which nothing is at stake. Test problems come after them."""
    noise_std: float = Field(0.005, ge=0.0)

    @property
    def num_members(self) -> int:
        """Both teams."""
        return 2 * TEAM_SIZE

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise.

        **Example** all cooperate: .125 each; all compete: -.125 each.
        """
        check_actions(actions_N, self.num_members)
        if episode < self.warmup_episodes:
            return (0.0,) * self.num_members
        shares = (cooperation(actions_N[:TEAM_SIZE]), cooperation(actions_N[TEAM_SIZE:]))
        earned = []
        for member, action in enumerate(actions_N):
            own, opp = shares[member // TEAM_SIZE], shares[1 - member // TEAM_SIZE]
            earned.append(0.25 * (own - 0.5) + (0.15 * opp if action == "compete" else -0.05 * (1 - own)))
        return tuple(earned)


class TeamBattleEnvironment(WarmedUpGame):
    """team_battle: two teams of four; one team's cooperation is the other team's prey."""

    Options = TeamBattle

    def place(self, state: Repeated, member: int) -> str:
        assert isinstance(state.rules, TeamBattle), state.rules
        warm = ", warm-up" if state.play.episode < state.rules.warmup_episodes else ""
        return f", team {'AB'[member // TEAM_SIZE]}{warm}"

    def explain(self, rules: TeamBattle, member: int) -> str:
        mates = [f"player_{mate}" for mate in range(2 * TEAM_SIZE) if mate // TEAM_SIZE == member // TEAM_SIZE]
        return (
            f"Your team is {', '.join(mates)}. With own and opp the shares of your team and of the other team who cooperate, "
            "you earn 0.25 (own - 0.5), and besides 0.15 opp if you compete, or 0.05 (1 - own) less if you cooperate."
        )
