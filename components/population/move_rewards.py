"""What every agent earned at each move of an episode: the rewards of those who acted, and the payoffs of the others.

A move is one answer, or the answers of agents that act at once. Rewards are those of the reward stage, so that they hold the
malformed answers and the user's weights; agents who did not act earn the payoff that the move gave them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from components.schema import Episode, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One move of the selected branch. `rewards_K_A` are what all agents earned, by candidate, in the order of the agents; None
    where the sandbox failed. `nodes` are its nodes by index, with the agent's place in that order, and `answers_K_M` what each
    of these said."""

    turn: int
    nodes: tuple[tuple[int, int], ...]
    answers_K_M: tuple[tuple[str, ...], ...]
    rewards_K_A: tuple[tuple[float, ...] | None, ...]
    chosen: int

    @property
    def chosen_rewards_A(self) -> tuple[float, ...] | None:
        """What all agents earned by the answers that the episode went on from."""
        return self.rewards_K_A[self.chosen]


def moves_of(
    episode: Episode,
    rewards_N_K: Sequence[Sequence[float | None]],
    *,
    agents: Sequence[str],
    acts_together: Callable[[Sequence[str]], bool],
    payoff_weight: float = 1.0,
) -> tuple[Move, ...]:
    """The moves of an episode's selected branch, in the order of play.

    **Example** alone, ann bets, and bob's call pays her 2 and him -2: two moves, with rewards (0, 0) and (2, -2) of (ann, bob).
    """
    place = {agent: a for a, agent in enumerate(agents)}
    moves = []
    for beside in _phases(episode):
        nodes = [episode.nodes[n] for n in beside]
        together = len(beside) > 1 and acts_together([node.group.agent for node in nodes])
        for part in [beside] if together else [[n] for n in beside]:
            first = episode.nodes[part[0]]
            moves.append(
                Move(
                    turn=first.group.turn,
                    nodes=tuple((n, place[episode.nodes[n].group.agent]) for n in part),
                    answers_K_M=tuple(
                        tuple(episode.nodes[n].candidates[k].text for n in part) for k in range(len(first.candidates))
                    ),
                    rewards_K_A=tuple(
                        _rewards([(episode.nodes[n], rewards_N_K[n][k]) for n in part], k, place, payoff_weight)
                        for k in range(len(first.candidates))
                    ),
                    chosen=first.chosen,
                )
            )
    return tuple(moves)


def _phases(episode: Episode) -> Iterator[list[int]]:
    """The nodes of the selected branch, those of agents side by side together."""
    beside: list[int] = []
    for n, node in enumerate(episode.nodes):
        if node.parent is not None:
            continue
        if node.parallel_index == 0 and beside:
            yield beside
            beside = []
        beside.append(n)
    if beside:
        yield beside


def _rewards(
    acting: Sequence[tuple[Node, float | None]], k: int, place: dict[str, int], payoff_weight: float
) -> tuple[float, ...] | None:
    """What all agents earned by candidate `k` of those who acted together."""
    payoffs = acting[0][0].candidates[k].outcome.payoffs or {}
    earned = [payoff_weight * payoffs.get(agent, 0.0) for agent in place]
    for node, reward in acting:
        if reward is None:
            return None
        earned[place[node.group.agent]] = reward
    return tuple(earned)
