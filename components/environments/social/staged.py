"""staged: a warm-up, then a game in which some members gain by competing; its rules are in `rules/staged.py`."""

from pydantic import Field

from components.environments.social.game import member_names
from components.environments.social.repeated import NUM_MEMBERS, Repeated, RepeatedOptions, WarmedUpGame
from components.environments.social.rules.base import Rules
from components.environments.social.rules.staged import Staged


class StagedOptions(RepeatedOptions):
    """The options of staged."""

    num_members: int = Field(NUM_MEMBERS, ge=1, le=64)
    """The players."""
    warmup_episodes: int = Field(20, ge=0)
    """The first training problems, in which everybody earns the same; after as many more the game pays in full. Test problems
    pay in full."""
    adversary_fraction: float = Field(0.25, ge=0.0, le=1.0)
    """The share of the members, the first ones and at least one, who gain by competing."""
    difficulty: float = Field(0.3, ge=0.0, le=1.0)
    """Lowers what everybody earns: `max(.1, 1 - difficulty)`."""
    noise_std: float = Field(0.005, ge=0.0)

    @property
    def roles(self) -> tuple[str, ...]:
        return member_names(self.num_members)


class StagedEnvironment(WarmedUpGame[StagedOptions]):
    """staged: a warm-up, then a game in which some members, the adversaries, gain by competing."""

    Options = StagedOptions

    def rules(self, options: StagedOptions) -> Rules:
        return Staged(**options.model_dump(exclude={"memory"}))

    def place(self, state: Repeated, member: int) -> str:
        assert isinstance(state.rules, Staged), state.rules
        if state.play.episode < state.rules.warmup_episodes:
            return ", warm-up"
        return ", adversary" if member < state.rules.num_adversaries else ""

    def explained(self, rules: Staged, member: int) -> str:
        own = "You are an adversary: you earn 0.1 rho more if you compete, and 0.05 rho less if you cooperate. "
        return (
            "In a warm-up everybody earns the same. Afterwards, with rho the share of all players who cooperate, each earns "
            "0.25 (rho - 0.5) more. "
            f"{own if member < rules.num_adversaries else ''}"
            "Whoever cooperates while rho is below 0.3, or competes while it is above 0.7, pays 0.05."
        )
