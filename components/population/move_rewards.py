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
    for part in _nodes_by_move(episode, acts_together):
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


def move_numbers(episode: Episode, *, acts_together: Callable[[Sequence[str]], bool]) -> tuple[int, ...]:
    """The move of each node of an episode, counted from 0; -1 off the selected branch, and for a call beside the work.

    **Example** two agents act at once, and then one alone: (0, 0, 1).
    """
    numbers = [-1] * len(episode.nodes)
    for number, part in enumerate(_nodes_by_move(episode, acts_together)):
        for n in part:
            numbers[n] = number
    return tuple(numbers)


def _nodes_by_move(episode: Episode, acts_together: Callable[[Sequence[str]], bool]) -> Iterator[list[int]]:
    """The nodes of each move of the selected branch."""
    for beside in _phases(episode):
        agents = [episode.nodes[n].group.agent for n in beside]
        if len(beside) > 1 and acts_together(agents):
            yield beside
        else:
            yield from ([n] for n in beside)


def _phases(episode: Episode) -> Iterator[list[int]]:
    """The actions of the selected branch, those of agents side by side together."""
    beside: list[int] = []
    for n, node in enumerate(episode.nodes):
        if node.parent is not None or node.is_beside:
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
