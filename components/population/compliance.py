"""What followers earn by following: by the last answer that the leader gave, at once with theirs or before it."""

from collections.abc import Sequence

from components.population.move_rewards import Move

Bonuses = tuple[tuple[tuple[float, ...], ...], ...]
"""Axes M, K, A: what each agent earns by following, by move and candidate."""


def compliance_bonuses(moves: Sequence[Move], *, leader: int, num_agents: int, bonus: float) -> Bonuses:
    """`bonus` for each follower that gives the leader's last answer, 0 for all others; `leader` is its place.

    A follower that acts before the leader ever has, has nothing to follow.

    **Example** ann leads, both act at once and say C: one move with bonuses (0, .1).
    """
    said: str | None = None
    bonuses = []
    for move in moves:
        acting = [a for _, a in move.nodes]
        of_candidates = [dict(zip(acting, answers, strict=True)) for answers in move.answers_K_M]
        bonuses.append(tuple(_of_candidate(answers, leader, said, num_agents, bonus) for answers in of_candidates))
        if leader in acting:
            said = of_candidates[move.chosen][leader]
    return tuple(bonuses)


def _of_candidate(
    answers: dict[int, str], leader: int, said: str | None, num_agents: int, bonus: float
) -> tuple[float, ...]:
    directive = answers.get(leader, said)
    return tuple(
        bonus if a != leader and directive is not None and answers.get(a) == directive else 0.0
        for a in range(num_agents)
    )
