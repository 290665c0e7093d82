"""Who plays whom when a population's members meet their partners as these were at the start."""

from collections.abc import Mapping
from dataclasses import dataclass

from components.config import RunConfig
from components.evaluation.comparison import PayoffDifference
from components.population.seating import Seating, past_self
from components.schema import PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class StartGains:
    """What each trained agent earns an episode more than at the start, all others being as at the start: by problem, paired."""

    gains: tuple[PayoffDifference, ...]
    num_problems: int

    @property
    def metrics(self) -> dict[str, float]:
        """**Example** {"against_starts/ann/gain": 1.36, ".../gain_low": .33, ".../gain_high": 2.39}."""
        return {
            f"against_starts/{gain.agent}/{name}": value
            for gain in self.gains
            for name, value in (
                ("gain", gain.difference),
                ("gain_low", gain.interval[0]),
                ("gain_high", gain.interval[1]),
            )
        }


def gain_sentence(gain: PayoffDifference) -> str:
    """**Example** "ann earns +1.36 more than at the start against its partners' start (+0.33 to +2.39)"."""
    low, high = gain.interval
    more = f"{-gain.difference:.2f} less" if gain.difference < 0 else f"{gain.difference:+.2f} more"
    return f"{gain.agent} earns {more} than at the start against its partners' start ({low:+.2f} to {high:+.2f})"


def list_trained_agents(config: RunConfig) -> list[str]:
    """The agents whose policies are trained."""
    return [agent for agent, settings in config.agents.items() if config.policies[settings.policy].trained]


def seating_at_start(config: RunConfig, learned: str | None = None) -> Seating:
    """All trained agents as they were at the start, and `learned` as it is now."""
    trained = set(list_trained_agents(config)) - {learned}
    return {
        agent: past_self(settings.policy, 0) if agent in trained else settings.policy
        for agent, settings in config.agents.items()
    }


def versions_of_seating(
    seating: Seating, starts: Mapping[str, PolicyVersion], versions: Mapping[str, PolicyVersion]
) -> dict[str, PolicyVersion]:
    """The version of each player of a seating: `starts` are the members' at the start, `versions` those of now."""
    at_start = {past_self(member, 0): version for member, version in starts.items()}
    return {
        player: versions[player]
        if player in versions
        else PolicyVersion(policy=player, step=0, weights_digest=at_start[player].weights_digest)
        for player in dict.fromkeys(seating.values())
    }
