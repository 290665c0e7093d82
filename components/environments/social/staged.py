"""staged: a warm-up in which everybody earns the base, then a game in which some members gain by competing.

With rho the share of *all* who cooperate, everybody earns `base (1 + .3 ramp) + .25 (rho - .5)`, ramp rising from 0 to
1 over as many episodes as the warm-up has. The first quarter of the members are adversaries: they earn `.1 rho` more if
they compete and `.05 rho` less if they cooperate. Whoever cooperates below rho .3, or competes above .7, pays .05.
"""

from collections.abc import Sequence

from pydantic import Field

from components.environments.social.repeated import NUM_MEMBERS, Repeated, WarmedUpGame
from components.environments.social.rules.base import Action, PayoffRules, base_payoff, check_actions, cooperation


class Staged(PayoffRules):
    """N members, of which `max(1, int(adversary_fraction N))` are adversaries.

    For 8 members, late: all compete (.785 on average) and adversaries compete while all others cooperate (.979) are the
    pure equilibria; all cooperate (1.0225) is none.
    """

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
    def num_adversaries(self) -> int:
        """How many of the first members are adversaries."""
        return max(1, int(self.adversary_fraction * self.num_members))

    def payoffs(self, actions_N: Sequence[Action], episode: int = 0) -> tuple[float, ...]:
        """What each member earns, without noise.

        **Example** late, the adversaries 0 and 1 compete and six others cooperate: .9975 and .9725.
        """
        check_actions(actions_N, self.num_members)
        base = base_payoff(self.difficulty)
        if episode < self.warmup_episodes:
            return (base,) * self.num_members
        played = episode - self.warmup_episodes
        ramp = min(1.0, played / self.warmup_episodes) if self.warmup_episodes else 1.0
        rho = cooperation(actions_N)
        common = base * (1 + 0.3 * ramp) + 0.25 * (rho - 0.5)
        return tuple(common + self._own_part(member, action, rho) for member, action in enumerate(actions_N))

    def _own_part(self, member: int, action: Action, rho: float) -> float:
        cooperates = action == "cooperate"
        mismatch = -0.05 if (cooperates and rho < 0.3) or (not cooperates and rho > 0.7) else 0.0
        if member >= self.num_adversaries:
            return mismatch
        return mismatch + (-0.05 * rho if cooperates else 0.1 * rho)


class StagedEnvironment(WarmedUpGame):
    """staged: a warm-up, then a game in which some members, the adversaries, gain by competing."""

    Options = Staged

    def place(self, state: Repeated, member: int) -> str:
        assert isinstance(state.rules, Staged), state.rules
        if state.play.episode < state.rules.warmup_episodes:
            return ", warm-up"
        return ", adversary" if member < state.rules.num_adversaries else ""

    def explain(self, rules: Staged, member: int) -> str:
        own = "You are an adversary: you earn 0.1 rho more if you compete, and 0.05 rho less if you cooperate. "
        return (
            "In a warm-up everybody earns the same. Afterwards, with rho the share of all players who cooperate, each earns "
            "0.25 (rho - 0.5) more. "
            f"{own if member < rules.num_adversaries else ''}"
            "Whoever cooperates while rho is below 0.3, or competes while it is above 0.7, pays 0.05."
        )
