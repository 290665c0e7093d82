"""What a page shows of a population: who sat where, what each player earned and learned from, moves made at once, choices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, isfinite
from typing import Any

from components.environments.registry import FAMILIES
from components.methods.population.credits import population_config, read_played_moves
from components.population.credit import PopulationState, mixing_matrix
from components.population.move_rewards import Move
from components.population.payoffs import PayoffMatrix
from components.population.seating import member_and_step
from components.schema import Node
from components.session.scenario import Scenario, scenario_of
from components.text.escaping import printable
from troupe.viewing.recorded import RecordedEpisode, RecordedStep

Row = tuple[float, ...]
_DREW = tuple[str, tuple[int, ...], tuple[tuple[int, ...], ...], float | None]
"""What an answer was drawn from: the player, its prompt, the choices and the temperature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPopulation:
    """A population's step: its agents, how their returns were mixed, and what is needed to tell of its episodes.

    `matrix_A_A` says what share of each other agent's return an agent learned from; None where that is not known. `scenario` is
    None where the game is the run's own code, which is not run: then moves and payoffs are not told.
    """

    agents: tuple[str, ...]
    mode: str
    strategy: str
    homes: Mapping[str, str]
    learning: frozenset[str]
    matrix_A_A: tuple[Row, ...] | None
    payoffs: PayoffMatrix | None
    """Of all games up to and with this step; up to the step before where it has not come so far."""
    scenario: Scenario | None
    notes: tuple[str, ...]


def read_shown_population(recorded: RecordedStep) -> ShownPopulation | None:
    """What the page tells of the step as one of a population; None for other runs."""
    config = recorded.config
    if not config.method.learns_from_credits:
        return None
    method = population_config(config)
    agents, mixing, notes = tuple(config.agents), recorded.mixing, []
    before = None if mixing is None else mixing.before
    if mixing is not None and before is None:
        notes.append("no mixed returns: the population's state before this step is not in the store")
    is_known = config.environment.name in FAMILIES
    if not is_known:
        notes.append(f"no payoffs: {config.environment.name} is the run's own environment, whose code is not run here")
    trained = {policy for policy, settings in config.policies.items() if settings.trained}
    learning = trained if mixing is None or mixing.learning is None else trained & set(mixing.learning)
    homes = {agent: settings.policy for agent, settings in config.agents.items()}
    return ShownPopulation(
        agents=agents,
        mode=method.training_mode.type,
        strategy=method.weight_updates.type,
        homes=homes if before is None or not before.homes else before.homes,
        learning=frozenset(learning),
        matrix_A_A=None
        if before is None
        else tuple(tuple(map(float, row)) for row in mixing_matrix(before, agents, method)),
        payoffs=None if mixing is None else (mixing.after or before or PopulationState()).payoffs,
        scenario=scenario_of(config) if is_known else None,
        notes=tuple(notes),
    )


def population_document(shown: ShownPopulation, episodes: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The step as a whole, from the documents of its episodes: the mode, who sat where in each shard, and mean returns."""
    by_shard: dict[int, list[dict[str, Any]]] = {}
    for episode in episodes:
        by_shard.setdefault(episode["shard"], []).append(episode)
    return {
        "mode": shown.mode,
        "strategy": shown.strategy,
        "agents": [printable(agent, keep="") for agent in shown.agents],
        "shares": shown.matrix_A_A,
        "payoffs": None if shown.payoffs is None else payoff_document(shown.payoffs),
        "shards": [
            {
                "shard": shard,
                "num_episodes": len(of_shard),
                "seats": [
                    {
                        **{name: seat[name] for name in ("agent", "player", "member", "past_step", "learns")},
                        "mean_return": _mean([episode["population"]["seats"][a]["return"] for episode in of_shard]),
                        "mean_mixed": _mean([episode["population"]["seats"][a]["mixed"] for episode in of_shard]),
                    }
                    for a, seat in enumerate(of_shard[0]["population"]["seats"])
                ],
            }
            for shard, of_shard in sorted(by_shard.items())
        ],
    }


def payoff_document(payoffs: PayoffMatrix) -> dict[str, Any] | None:
    """Who earned what a game beside whom: the players, members before past selves, and for each its mean return and number of
    games by the other player. None before the first game of two.

    **Example** a met b once and earned 2 to -1: rows ((None, (2, 1)), ((-1, 1), None)).
    """
    found = {*payoffs.first, *payoffs.second}
    players = sorted(
        found, key=lambda player: ((past := member_and_step(player))[1] is not None, past[0], past[1] or 0)
    )

    def cell(player: str, other: str) -> list[float | int | None] | None:
        num_games = payoffs.num_games(player, other)
        return [_round(payoffs.compute_played_mean(player, other)), num_games] if num_games else None

    rows = [[cell(player, other) for other in players] for player in players]
    return {"players": [printable(player, keep="") for player in players], "rows": rows} if players else None


def episode_population(shown: ShownPopulation, recorded: RecordedEpisode) -> dict[str, Any]:
    """Who sat where in an episode, with raw and mixed returns, and its moves with what each agent earned at each.

    A failed episode has no returns: nothing is learned from it.
    """
    episode = recorded.episode
    moves = () if shown.scenario is None else read_played_moves(shown.scenario, episode, recorded.rewards_N_K)
    earned = [move.chosen_rewards_A for move in moves]
    known = [rewards_A for rewards_A in earned if rewards_A is not None]
    is_whole = bool(known) and len(known) == len(earned) and episode.error is None
    raw_A = [sum(rewards_A[a] for rewards_A in known) if is_whole else None for a in range(len(shown.agents))]
    players = {node.group.agent: node.policy for node in episode.nodes}
    return {
        "seats": [
            {
                **_seat(shown, agent, players.get(agent, shown.homes[agent])),
                "return": _round(raw_A[a]),
                "mixed": _round(_mix(shown.matrix_A_A, a, raw_A)),
            }
            for a, agent in enumerate(shown.agents)
        ],
        "moves": [_move_document(move, shown.agents) for move in moves],
    }


class DrawnChoices:
    """The probabilities of the choices of a step, as far as they were drawn: each answer tells that of its own choice."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._drawn: dict[_DREW, dict[tuple[int, ...], tuple[str, float]]] = {}
        for node in nodes:
            if node.choices:
                known = self._drawn.setdefault(_drew(node), {})
                for candidate in node.candidates:
                    known[candidate.tokens] = (candidate.text, exp(sum(candidate.sampler_logprobs)))

    def document(self, node: Node, text: Any) -> dict[str, Any] | None:
        """The node's choices, the likeliest first, and the probability of those together that nobody drew; None for free text.

        `text` reads tokens; None: they are shown as numbers. A single choice that nobody drew has what is left.

        **Example** of three choices two were drawn in the step, with .6 and .3: the third has .1.
        """
        if not node.choices:
            return None
        known = self._drawn.get(_drew(node), {})
        rest = max(0.0, 1.0 - sum(known[choice][1] for choice in node.choices if choice in known))
        undrawn = [choice for choice in node.choices if choice not in known]
        rows: list[tuple[str, float | None, bool]] = [
            (*known[choice], True) for choice in node.choices if choice in known
        ]
        rows += [(_choice_text(choice, text), rest if len(undrawn) == 1 else None, False) for choice in undrawn]
        rows.sort(key=lambda row: -1.0 if row[1] is None else row[1], reverse=True)
        return {
            "rows": [[printable(said), _round(probability), was_drawn] for said, probability, was_drawn in rows],
            "rest": _round(rest) if len(undrawn) > 1 else None,
        }


def _drew(node: Node) -> _DREW:
    return node.policy, node.prompt_tokens, node.choices, node.temperature


def _choice_text(choice: tuple[int, ...], text: Any) -> str:
    """A choice without the token that ends it."""
    said = choice[:-1] or choice
    return " ".join(map(str, said)) if text is None else str(text(said))


def _seat(shown: ShownPopulation, agent: str, player: str) -> dict[str, Any]:
    member, past_step = member_and_step(player)
    return {
        "agent": printable(agent, keep=""),
        "player": printable(player, keep=""),
        "member": printable(member, keep=""),
        "past_step": past_step,
        "is_away": member != shown.homes[agent],
        "learns": past_step is None and member in shown.learning,
    }


def _mix(matrix_A_A: tuple[Row, ...] | None, a: int, raw_A: Sequence[float | None]) -> float | None:
    known = [value for value in raw_A if value is not None]
    if matrix_A_A is None or len(known) < len(raw_A):
        return None
    return sum(share * value for share, value in zip(matrix_A_A[a], known, strict=True))


def _move_document(move: Move, agents: Sequence[str]) -> dict[str, Any]:
    rewards_A = move.chosen_rewards_A
    return {
        "turn": move.turn,
        "nodes": [n for n, _ in move.nodes],
        "payoffs": None if rewards_A is None else [_round(rewards_A[a]) for a in range(len(agents))],
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return _round(sum(known) / len(known)) if known else None


def _round(value: float | None) -> float | None:
    return None if value is None or not isfinite(value) else float(f"{value:.6g}")
