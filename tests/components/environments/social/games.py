"""Games of several players under small options, and random play of them."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from components.environments.family import Family
from components.environments.play import Position, Referee
from components.environments.registry import FAMILIES, family, family_options
from components.schema import ActionOutcome, Problem
from components.turn_order import Phase

SOCIAL = frozenset(name for name, place in FAMILIES.items() if ".environments.social." in place)
"""Games of several players, whose answers are choices."""
ALONE = tuple(name for name in FAMILIES if name not in SOCIAL | {"agent", "agent_plan_path", "game_boy"})
"""Those whose answers are texts. game_boy has choices, and its tests are those of `components/hybrid`; agent has problems of
its user's, and agent_plan_path the rules of plan_path: their tests are test_agent.py and those of `components/gateway`."""

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("coop_compete", {"num_members": 3, "num_steps": 4}),
    ("coop_compete", {"num_members": 2, "num_steps": 4, "memory": 2}),
    ("public_goods", {"num_members": 3, "num_steps": 3}),
    ("staged", {"num_members": 3, "num_steps": 3}),
    ("team_battle", {"num_steps": 2}),
    ("maze", {"layout": "simple", "num_steps": 12, "race_bonus": 1.0}),
    ("maze", {"layout": "drawn", "width": 4, "height": 4, "view": "known", "shared_map": True, "collisions": True}),
    ("social_trading", {}),
    ("social_trading", {"num_members": 3, "binding": True}),
    ("social_trading", {"num_members": 3, "num_scripted": 2}),
    ("social_trading", {"must_offer": True}),
    ("led", {"game": "coop_compete", "options": {"num_members": 3, "num_steps": 2}}),
    ("open_spiel", {}),
    ("open_spiel", {"game": "kuhn_poker", "num_players": 3}),
    ("open_spiel", {"game": "leduc_poker"}),
    ("open_spiel", {"game": "tiny_hanabi"}),
    ("open_spiel", {"game": "bargaining"}),
    ("open_spiel", {"game": "matrix_pd"}),
    ("open_spiel", {"game": "goofspiel(num_cards=4,imp_info=True)"}),
    ("open_spiel", {"game": "tic_tac_toe"}),
    ("petting_zoo", {}),
    ("petting_zoo", {"game": "mpe2.simple_spread_v3", "max_steps": 4}),
    ("petting_zoo", {"game": "mpe2.simple_speaker_listener_v4", "max_steps": 4}),
]


def make_problem(
    name: str, options: Mapping[str, Any], seed: int = 0, *, split: Any = "train"
) -> tuple[Family, Problem]:
    """A family with the roles of its options, and a problem of it."""
    chosen = family_options(name, options)
    known = family(name).under(chosen)
    return known, known.problem(chosen, split=split, index=seed, seed=7)


class Line:
    """One line of play: positions, and what each phase led to."""

    def __init__(self, known: Family, problem: Problem) -> None:
        self.known, self.referee = known, known.referee()
        self.position = self.referee.start(problem)
        self.phase: Phase | None = None

    def __iter__(self) -> Iterator[tuple[Phase, Position]]:
        """Each phase with the position before it, while the game lasts."""
        while phase := self.referee.next_phase(self.position, self.known.turn_order, after=self.phase):
            self.phase = phase
            yield phase, self.position

    def drawn(self, phase: Phase, rng: Random) -> list[str]:
        """A random choice of each agent of the phase."""
        return [self.known.random_action(self.position, agent, rng) for agent in phase.agents]

    def advance(self, phase: Phase, answers: list[str]) -> tuple[ActionOutcome, ...]:
        """What the answers lead to; play goes on from there."""
        outcomes, self.position = self.referee.advance(self.position, phase, answers)
        return outcomes


def paid(outcomes: Sequence[ActionOutcome]) -> Mapping[str, float]:
    """What each member earned in a step; all outcomes of it tell the same."""
    assert all(outcome.payoffs == outcomes[0].payoffs for outcome in outcomes)
    return outcomes[0].payoffs or {}


def facts(referee: Referee, position: Position) -> tuple[Any, ...]:
    """All that can be seen of a position."""
    roles = () if position.is_done else referee.rules.roles
    seen = [referee.observe(position, role) for role in roles]
    return (position.is_done, position.is_solved, referee.picture(position, color=False), seen)
