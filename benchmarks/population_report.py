"""What the rows of the benchmark of populations give: exploitabilities, the order of checkpoints, equilibria, and modes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from statistics import fmean
from typing import Any

from benchmarks.intervals import mean_interval
from benchmarks.markdown import markdown
from benchmarks.population_runs import GAMES, LED, LED_UNPAID, MODES, NUM_GAMES_A_PAIR, POKERS, Order, Row
from benchmarks.population_tables import mean_table
from benchmarks.spiel_policies import (
    advantage,
    average_policy,
    exploitability,
    information_states,
    play_matrix,
    spiel_tables,
)

BAND = 0.02
"""How far from an equilibrium's payoff a population's may be on average."""


def poker_lines(game: str, rows: Sequence[Row]) -> list[str]:
    """The table of one poker game, and of each run exploitabilities on the way and the order of three checkpoints."""
    name, bound = POKERS[game].title, POKERS[game].bound
    runs = [PokerRun(row) for row in rows]
    body = []
    for run in runs:
        row = run.row
        first = next((step for step, average in enumerate(run.averages) if step and average <= bound), None)
        values = (run.last(0), run.last(row.num_steps), run.averages[-1], run.late())
        numbers = [*(f"{value:.3f}" for value in values), "never" if first is None else f"after {first}"]
        body.append([f"seed {row.seed}", str(row.num_steps), *numbers, f"{row.training_cpu_seconds:.0f}"])
    averages = ["average policy", "of the last half", f"average <= {bound}"]
    titles = [name, "steps", "start", "last iterate", *averages, "CPU s"]
    return [markdown(titles, body), "", *(line for run in runs for line in (run.curve_line(), run.ordering_line()))]


class PokerRun:
    """What a run of a poker game gives: its policies after each step, the first untrained, as OpenSpiel judges them."""

    def __init__(self, row: Row) -> None:
        from components.environments.social.spiel_games import spiel_game

        scenario = scenario_of_game(row.game, row.overrides)
        options = scenario.options
        self.row = row
        self.game = spiel_game(options.game, options.parameters, options.num_players).game
        self.states = information_states(self.game)
        self.policies = spiel_tables(scenario, row.tables)

    def last(self, step: int) -> float:
        """The exploitability of the policy after `step` steps."""
        return exploitability(self.game, self.policies[step])

    @cached_property
    def averages(self) -> list[float]:
        """That of the average of the trained policies up to each step; before the first one, of the untrained policy."""
        until = (self.policies[1 : step + 1] or self.policies[:1] for step in range(len(self.policies)))
        return [exploitability(self.game, average_policy(self.states, policies)) for policies in until]

    def late(self) -> float:
        """That of the average of the policies after the last half of the steps."""
        return exploitability(self.game, average_policy(self.states, self.policies[1 + self.row.num_steps // 2 :]))

    def curve_line(self) -> str:
        """Average and last iterate at each quarter of the steps.

        **Example** "seed 0: exploitability of the average policy (of the last iterate) 0.458 (0.458) after 0, ... steps"
        """
        steps = sorted({self.row.num_steps * quarter // 4 for quarter in range(5)})
        told = ", ".join(f"{self.averages[step]:.3f} ({self.last(step):.3f}) after {step}" for step in steps)
        return f"seed {self.row.seed}: exploitability of the average policy (of the last iterate) {told} steps"

    def ordering_line(self) -> str:
        """Three checkpoints, ordered by what they earn against each other: in played games, and by OpenSpiel's values."""
        last = self.row.num_steps
        named = {f"u{step}": self.policies[step] for step in (0, last // 2, last)}
        exact = {(a, b): advantage(self.game, named[a], named[b]) for a in named for b in named}
        played = play_matrix(self.game, named, num_games_a_pair=NUM_GAMES_A_PAIR, seed=self.row.seed)
        by_exact = _order({name: sum(exact[name, other] for other in named) for name in named})
        by_played = _order(
            {
                name: sum(
                    played.compute_played_mean(name, other) - played.compute_played_mean(other, name)
                    for other in named
                    if other != name
                )
                for name in named
            }
        )
        pairs = ", ".join(
            f"{one} against {other}: {played.compute_played_mean(one, other):+.3f} (exact {exact[one, other]:+.3f})"
            for one, other in combinations(named, 2)
        )
        verdict = "the same" if by_exact == by_played else "NOT the same"
        games = f"by {NUM_GAMES_A_PAIR} games a pair {by_played}; by OpenSpiel {by_exact}"
        return f"seed {self.row.seed}: {games}: {verdict}; {pairs}"


def _order(earned: Mapping[str, float]) -> str:
    return " < ".join(sorted(earned, key=earned.__getitem__))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Where a population of a game of one joint action ended: each member's chance to cooperate by its average policy, and what
    all earn by it on average. `equilibrium` is the nearest pure one, in letters."""

    cooperation_A: tuple[float, ...]
    mean_payoff: float
    last_payoff: float
    equilibrium: str
    equilibrium_payoff: float

    @property
    def is_within(self) -> bool:
        """Whether every member plays its part in more than half of the games, at a payoff within the band."""
        return abs(self.mean_payoff - self.equilibrium_payoff) <= BAND and all(
            (chance > 0.5) == (letter == "C")
            for chance, letter in zip(self.cooperation_A, self.equilibrium, strict=True)
        )


def find_endpoint(row: Row) -> Reached:
    """Where a run ended, by the average of the policies after the last half of its steps."""
    from benchmarks.equilibria import pure_equilibria

    rules = rules_of(row.game)
    late = mean_table(row.tables[1 + row.num_steps // 2 :])
    cooperation_A = tuple(at["cooperate"] for at in late.values())
    last_A = tuple(at["cooperate"] for at in row.tables[-1].values())
    pure = pure_equilibria(rules.payoffs, rules.num_members)
    nearest = min(pure, key=lambda actions: sum(_miss(c, a) for c, a in zip(cooperation_A, actions, strict=True)))
    return Reached(
        cooperation_A=cooperation_A,
        mean_payoff=compute_mean_payoff(rules, cooperation_A),
        last_payoff=compute_mean_payoff(rules, last_A),
        equilibrium="".join("C" if action == "cooperate" else "D" for action in nearest),
        equilibrium_payoff=sum(rules.payoffs(nearest)) / rules.num_members,
    )


def _miss(chance: float, action: str) -> float:
    return 1 - chance if action == "cooperate" else chance


def scenario_of_game(game: str, overrides: Sequence[str] = ()) -> Any:
    """The environment and options of a game of the report."""
    from components.session.scenario import scenario_of

    return scenario_of(Order(game=game, seed=0, num_steps=1, overrides=tuple(overrides)).config())


def rules_of(game: str) -> Any:
    """The rules of one of the games of one joint action, without noise."""
    scenario = scenario_of_game(game)
    problem = scenario.family.problem(scenario.options, split="test", index=0, seed=0)
    return scenario.family.referee().start(problem).state.rules


def compute_mean_payoff(rules: Any, cooperation_A: Sequence[float]) -> float:
    """What members earn on average when each cooperates with its own chance, in the late game.

    **Example** two members of coop_compete at chance .5 each: .7125.
    """
    from itertools import product
    from math import prod

    total = 0.0
    for actions in product(("cooperate", "compete"), repeat=rules.num_members):
        chance = prod(1 - _miss(c, action) for c, action in zip(cooperation_A, actions, strict=True))
        total += chance * sum(rules.payoffs(actions, 0)) / rules.num_members
    return total


def game_lines(rows: Sequence[Row]) -> list[str]:
    """The table of equilibria."""
    body = []
    for row in rows:
        name = f"{row.game}, seed {row.seed}"
        if row.spl is not None:
            body.append([name, str(row.num_steps), f"SPL {row.spl:.3f}", "", "", "", f"{row.training_cpu_seconds:.0f}"])
            continue
        found = find_endpoint(row)
        chances = " ".join(f"{chance:.2f}" for chance in found.cooperation_A)
        verdict = "yes" if found.is_within else "NO"
        payoffs = [
            f"{found.mean_payoff:.3f} ({found.last_payoff:.3f})",
            f"{found.equilibrium} {found.equilibrium_payoff:.3f}",
        ]
        body.append([name, str(row.num_steps), chances, *payoffs, verdict, f"{row.training_cpu_seconds:.0f}"])
    titles = ["game", "steps", "P(cooperate), average", "payoff (last)", "equilibrium", f"within {BAND}", "CPU s"]
    return [markdown(titles, body)]


def mode_lines(rows: Sequence[Row]) -> list[str]:
    """The table of training modes on one public good, with 95% intervals over seeds."""
    body = []
    for mode in MODES:
        game = f"public_goods, {mode}"
        if not (of_mode := [row for row in rows if row.game == game]):
            continue
        rules = rules_of(game)
        late = [mean_table(row.tables[1 + row.num_steps // 2 :]) for row in of_mode]
        chances_S_A = [[at["cooperate"] for at in table.values()] for table in late]
        earned = [compute_mean_payoff(rules, chances) for chances in chances_S_A]
        per_agent = [_interval([chances[a] for chances in chances_S_A]) for a in range(rules.num_members)]
        body.append([mode, predict_equilibria(mode, rules), *per_agent, _interval(earned)])
    titles = ["mode", "predicted", *(f"player_{a} cooperates" for a in range(4)), "raw return"]
    return [markdown(titles, body)]


def write_leader_lines(rows: Sequence[Row]) -> list[str]:
    """What followers do and the leader earns, in the first step and in the last quarter, with intervals over seeds; what came
    between is paired by seed."""
    body = []
    for game in (LED, LED_UNPAID):
        of_game = [row for row in rows if row.game == game]
        if of_game:
            parts = [_risen(of_game, name) for name in ("population/compliance", "population/player_0/return")]
            body.append([game, *(each for part in parts for each in part)])
    titles = [
        "game",
        "compliance, first step",
        "last quarter",
        "risen by",
        "leader's return, first step",
        "last quarter",
    ]
    return [markdown([*titles, "risen by"], body)]


def _risen(rows: Sequence[Row], metric: str) -> tuple[str, str, str]:
    """The metric in the first step, its mean over the last quarter of the steps, and the difference."""
    curves = [[step[metric] for step in row.metrics] for row in rows]
    first = [curve[0] for curve in curves]
    last = [fmean(curve[-max(1, len(curve) // 4) :]) for curve in curves]
    return _interval(first), _interval(last), _interval([b - a for a, b in zip(first, last, strict=True)])


def predict_equilibria(mode: Any, rules: Any) -> str:
    """The pure equilibria of a game under a mode, in letters; mixed at the correlation of members who act independently, the
    leader first.

    **Example** hierarchical in a public good of share .8: CDDD.
    """
    from pydantic import TypeAdapter

    from benchmarks.equilibria import pure_equilibria
    from components.config.population import TrainingMode
    from components.population.training_modes import make_mode_matrix

    settings = TypeAdapter(TrainingMode).validate_python(mode)
    matrix = make_mode_matrix(settings, rules.num_members, correlation=correlation_of_coins(rules))

    def payoffs(actions: Any) -> tuple[float, ...]:
        return tuple((matrix @ rules.payoffs(actions)).tolist())

    found = pure_equilibria(payoffs, rules.num_members)
    return " or ".join("".join("C" if each == "cooperate" else "D" for each in actions) for actions in found)


def correlation_of_coins(rules: Any) -> float:
    """The mean correlation of the returns of two members when all flip fair coins.

    **Example** a public good of share .8 among four pays .8 of all and costs 1: .96 / 1.96 = .49, at fair and at other coins.
    """
    from itertools import product

    import numpy as np

    played = product(("cooperate", "compete"), repeat=rules.num_members)
    correlations = np.corrcoef(np.array([rules.payoffs(actions, 0) for actions in played]).T)
    return float(correlations[~np.eye(rules.num_members, dtype=bool)].mean())


def _interval(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.2f}, one seed"
    mean, half = mean_interval(values)
    return f"{mean:.2f} ± {half:.2f}"


def lines_of(rows: Sequence[Row]) -> list[str]:
    """The whole report of the rows that are there."""
    lines: list[str] = []
    for game in POKERS:
        if of_game := [row for row in rows if row.game == game]:
            lines += [*poker_lines(game, of_game), ""]
    if games := [row for row in rows if row.game in GAMES and not row.game.startswith("public_goods")]:
        lines += [*game_lines(games), ""]
    if modes := [row for row in rows if row.game.startswith("public_goods,")]:
        lines += [*mode_lines(modes), ""]
    if led := [row for row in rows if row.game in (LED, LED_UNPAID)]:
        lines += [*write_leader_lines(led), ""]
    return lines
