"""team_battle: two teams of four, one team's cooperation the other's prey; its rules are in `rules/team_battle.py`."""

from pydantic import Field

from components.environments.social.repeated import Repeated, RepeatedOptions, WarmedUpGame
from components.environments.social.rules.base import Rules
from components.environments.social.rules.team_battle import TEAM_SIZE, TeamBattle


class TeamBattleOptions(RepeatedOptions):
    """The options of team_battle."""

    warmup_episodes: int = Field(10, ge=0)
    """The first training problems, in which nothing is at stake. Test problems come after them."""
    noise_std: float = Field(0.005, ge=0.0)


class TeamBattleEnvironment(WarmedUpGame[TeamBattleOptions]):
    """team_battle: two teams of four; one team's cooperation is the other team's prey."""

    Options = TeamBattleOptions

    def rules(self, options: TeamBattleOptions) -> Rules:
        return TeamBattle(**options.model_dump(exclude={"memory"}))

    def place(self, state: Repeated, member: int) -> str:
        assert isinstance(state.rules, TeamBattle), state.rules
        warm = ", warm-up" if state.play.episode < state.rules.warmup_episodes else ""
        return f", team {'AB'[member // TEAM_SIZE]}{warm}"

    def explained(self, rules: TeamBattle, member: int) -> str:
        mates = [f"player_{mate}" for mate in range(2 * TEAM_SIZE) if mate // TEAM_SIZE == member // TEAM_SIZE]
        return (
            f"Your team is {', '.join(mates)}. With own and opp the shares of your team and of the other team who cooperate, "
            "you earn 0.25 (own - 0.5), and besides 0.15 opp if you compete, or 0.05 (1 - own) less if you cooperate."
        )
