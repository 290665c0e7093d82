"""Policies of OpenSpiel's two-player games in turn, as tables: read from those of members, averaged, played, judged exactly."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod
from random import Random
from typing import Any

from benchmarks.population_tables import Table, spiel_decisions
from components.identity import seed_for

SpielTable = Mapping[str, Mapping[int, float]]
"""OpenSpiel's information state string -> action -> chance."""


def spiel_tables(scenario: Any, tables: Sequence[Table]) -> list[SpielTable]:
    """Tables of what members are told, as those of a game of OpenSpiel. Who is told the same in two information states, as
    where only suits differ, does the same in both. Raises KeyError where a table lacks one.

    **Example** "player_1: … your card: Queen …, player_0 bets …" -> {Pass: .3, Bet: .7} is "1b" -> {0: .3, 1: .7}.
    """
    told = {
        name: (decision.information, list(zip(state.legal_actions(), decision.choices, strict=True)))
        for name, (state, decision) in spiel_decisions(scenario).items()
    }
    return [
        {
            name: {action: table[information][choice] for action, choice in acts}
            for name, (information, acts) in told.items()
        }
        for table in tables
    ]


@dataclass(frozen=True, slots=True)
class InformationState:
    """Where a player of OpenSpiel's acts, and what it did before: its own information states and actions, in order."""

    name: str
    own_past: tuple[tuple[str, int], ...]


def information_states(game: Any) -> tuple[InformationState, ...]:
    """All of a game in which no player forgets what it did or saw. **Example** Kuhn poker 12, Leduc poker 936."""
    from open_spiel.python.policy import TabularPolicy

    found = []
    for state in TabularPolicy(game).states:
        player, past, position = state.current_player(), [], game.new_initial_state()
        for action in state.history():
            if position.current_player() == player:
                past.append((position.information_state_string(), action))
            position.apply_action(action)
        found.append(InformationState(state.information_state_string(), tuple(past)))
    return tuple(found)


def exploitability(game: Any, policy: SpielTable) -> float:
    """What the best responses to both sides of a policy earn on average by OpenSpiel; 0 at an equilibrium alone.

    **Example** uniform play: Kuhn poker 11/24 = .458, Leduc poker 2.374.
    """
    import pyspiel

    return float(pyspiel.exploitability(game, {name: list(chances.items()) for name, chances in policy.items()}))


def average_policy(states: Sequence[InformationState], policies: Sequence[SpielTable]) -> SpielTable:
    """The policy of a game of these information states that plays like one of `policies` picked before each game.

    Who never comes to an information state has no say there; where nobody does, the average is plain.
    """
    average = {}
    for at in states:
        reaches = [prod(policy[earlier][action] for earlier, action in at.own_past) for policy in policies]
        weights = reaches if sum(reaches) else [1.0] * len(policies)
        total, chances = sum(weights), [policy[at.name] for policy in policies]
        average[at.name] = {
            action: sum(weight * each[action] for weight, each in zip(weights, chances, strict=True)) / total
            for action in chances[0]
        }
    return average


def advantage(game: Any, own: SpielTable, other: SpielTable) -> float:
    """What `own` earns a game against `other` by OpenSpiel, sides swapped."""
    import pyspiel

    mine, theirs = (
        pyspiel.TabularPolicy({name: list(at.items()) for name, at in each.items()}) for each in (own, other)
    )
    first = pyspiel.expected_returns(game.new_initial_state(), [mine, theirs], -1, True)[0]
    second = pyspiel.expected_returns(game.new_initial_state(), [theirs, mine], -1, True)[1]
    return float(first + second) / 2


def play_matrix(game: Any, policies: Mapping[str, SpielTable], *, num_games_a_pair: int, seed: int) -> Any:
    """The payoff matrix of games between policies, sides swapped, with equal first deals for each pair."""
    from components.population.payoffs import PayoffMatrix, PlayedGame

    games, matrix = [], PayoffMatrix()
    for one, other in combinations(policies, 2):
        for problem in range(num_games_a_pair // 2):
            for first, second in ((one, other), (other, one)):
                rng = Random(seed_for(seed, "match", problem))
                earned = play_game(game, policies[first], policies[second], rng)
                games.append(
                    PlayedGame(order=len(games), first=first, second=second, first_return=earned, second_return=-earned)
                )
    return matrix.after(games)


def play_game(game: Any, first: SpielTable, second: SpielTable, rng: Random) -> float:
    """What the first player earns in one game; each deal is one draw of `rng`."""
    state = game.new_initial_state()
    while not state.is_terminal():
        if state.is_chance_node():
            _deal(state, rng.random())
        else:
            chances = (first, second)[state.current_player()][state.information_state_string()]
            state.apply_action(rng.choices(list(chances), list(chances.values()))[0])
    return float(state.returns()[0])


def _deal(state: Any, uniform: float) -> None:
    """Apply all that chance does here in a row: its outcomes in order, where their cumulative chance exceeds the uniform."""
    while state.is_chance_node():
        outcomes = state.chance_outcomes()
        for action, chance in outcomes:
            if uniform < chance or action == outcomes[-1][0]:
                break
            uniform -= chance
        state.apply_action(action)
        uniform /= chance
