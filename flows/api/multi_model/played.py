"""What the members of a run did and earned, read from its stored rollouts."""

from collections.abc import Sequence
from itertools import groupby

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import get
from components.artifacts.refs import references_in
from components.errors import ArtifactMissing
from components.population.interaction_graph import PlayedEpisode
from components.runs.run import Run
from components.runs.step_records import step_manifests
from components.schema import Episode, RolloutShard

_ACTIONS = ("cooperate", "compete")


def played_episodes(store: ArtifactStore, run: Run, step: int) -> list[PlayedEpisode]:
    """The episodes of a finished step that did not fail: each member's raw return, and what it did in games of cooperation.

    A member that plays several seats has one entry for each, as `model_0_tiny/player_2`. Empty if `troupe gc` has removed them.
    """
    names = seat_names(run)
    found: list[PlayedEpisode] = []
    try:
        for manifest in step_manifests(store, run, step):
            if manifest.stage != "collect_rollouts":
                continue
            for ref in references_in(manifest.output):
                for episode in get(store, ref, RolloutShard).episodes:
                    if episode.error is None:
                        found.append(_played(episode, names, order=len(found)))
    except ArtifactMissing:
        return []
    return found


def seat_names(run: Run) -> dict[str, str]:
    """Each player and the name of the member in that seat."""
    policies = {player: agent.policy for player, agent in run.config.agents.items()}
    several = {each for each in policies.values() if list(policies.values()).count(each) > 1}
    return {player: f"{name}/{player}" if name in several else name for player, name in policies.items()}


def cooperation_rate(episodes: Sequence[PlayedEpisode], member: str) -> float | None:
    """The share of a member's actions that cooperated; None in games without cooperation."""
    actions = [
        action
        for each in episodes
        for step in each.actions_T
        for name, action in step.items()
        if name.partition("/")[0] == member
    ]
    return sum(each == "cooperate" for each in actions) / len(actions) if actions else None


def _played(episode: Episode, names: dict[str, str], *, order: int) -> PlayedEpisode:
    returns = dict.fromkeys(names.values(), 0.0)
    actions_T = []
    for _, nodes in groupby(episode.path, key=lambda node: node.group.turn):
        actions = {}
        for position, node in enumerate(nodes):
            chosen = node.candidates[node.chosen]
            if position == 0:  # of those who act at once each outcome holds all payoffs
                for player, payoff in (chosen.outcome.payoffs or {}).items():
                    returns[names[player]] += payoff
            if chosen.text in _ACTIONS:
                actions[names[node.group.agent]] = chosen.text
        if actions:
            actions_T.append(actions)
    return PlayedEpisode(order=order, raw_returns=returns, actions_T=actions_T)  # type: ignore[arg-type]
