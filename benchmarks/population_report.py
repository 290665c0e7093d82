"""What the rows of the benchmark of populations give: exploitabilities, the order of checkpoints, equilibria, and modes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from random import Random
from statistics import fmean
from typing import Any

from benchmarks.intervals import mean_interval
from benchmarks.markdown import markdown
from benchmarks.population_runs import GAMES, LED, LED_UNPAID, MODES, NUM_GAMES_A_PAIR, Row
from benchmarks.population_tables import Table, kuhn_table, mean_table

BAND = 0.02
"""How far from an equilibrium's payoff a population's may be on average."""
EXPLOITABILITY = 0.15


def kuhn_lines(rows: Sequence[Row]) -> list[str]:
    """The table of Kuhn poker, and the order of three checkpoints of each run."""
    body = []
    for row in rows:
        curve = exploitabilities(row)
        first = next((step for step, (_, average) in enumerate(curve) if step and average <= EXPLOITABILITY), None)
        (start, _), (last, average) = curve[0], curve[-1]
        numbers = [f"{value:.3f}" for value in (start, last, average, late_exploitability(row))]
        body.append([f"seed {row.seed}", str(row.num_steps), *numbers, _step(first), f"{row.training_cpu_seconds:.0f}"])
    averages = ["average policy", "of the last half", f"average <= {EXPLOITABILITY}"]
    titles = ["Kuhn poker", "steps", "start", "last iterate", *averages, "CPU s"]
    return [markdown(titles, body), "", *(line for row in rows for line in ordering_lines(row))]


def _step(step: int | None) -> str:
    return "never" if step is None else f"after {step}"


def exploitabilities(row: Row) -> list[tuple[float, float]]:
    """The exploitability of each step's policy and of the average of the trained ones up to it; the first is untrained."""
    tables = [kuhn_table(table) for table in row.tables]
    averaged = [tables[:1], *(tables[1 : step + 1] for step in range(1, len(tables)))]
    return [
        (exploitability(table), exploitability(average_policy(until)))
        for table, until in zip(tables, averaged, strict=True)
    ]


def late_exploitability(row: Row) -> float:
    """The exploitability of the average of the policies after the last half of the steps."""
    return exploitability(average_policy([kuhn_table(table) for table in row.tables[1 + row.num_steps // 2 :]]))


def exploitability(policy: Table) -> float:
    """What the best responses to both sides of a policy of Kuhn poker earn on average by OpenSpiel; 0 at an equilibrium alone.

    **Example** uniform 11/24 = .458, always passing 1.
    """
    import pyspiel
    from open_spiel.python.algorithms import exploitability as openspiel

    game = pyspiel.load_game("kuhn_poker")
    return float(openspiel.exploitability(game, spiel_policy(game, policy)))


def average_policy(policies: Sequence[Table]) -> Table:
    """The policy of Kuhn poker that plays like one of `policies` picked before each game.

    Who never passes has no say about what follows a pass; where nobody passes, the average is plain.
    """
    average: dict[str, dict[str, float]] = {}
    for information in policies[0]:
        reaches = [policy[information[0]]["p"] if len(information) == 3 else 1.0 for policy in policies]
        weights = reaches if sum(reaches) else [1.0] * len(policies)
        average[information] = {
            action: sum(weight * policy[information][action] for weight, policy in zip(weights, policies, strict=True))
            / sum(weights)
            for action in "pb"
        }
    return average


def ordering_lines(row: Row) -> list[str]:
    """Three checkpoints of a run, ordered by what they earn against each other: in played games, and by OpenSpiel's values."""
    middle, last = row.num_steps // 2, row.num_steps
    named = {f"u{step}": kuhn_table(row.tables[step]) for step in (0, middle, last)}
    exact = {name: sum(spiel_advantage(own, other) for other in named.values()) for name, own in named.items()}
    played = played_matrix(named, seed=row.seed)
    earned = {name: sum(played.advantage(name, other) or 0.0 for other in named if other != name) for name in named}
    by_exact, by_played = (" < ".join(sorted(found, key=found.__getitem__)) for found in (exact, earned))
    pairs = ", ".join(
        f"{one} against {other}: {played.mean(one, other):+.3f} (exact {spiel_advantage(named[one], named[other]):+.3f})"
        for one, other in (("u0", f"u{middle}"), ("u0", f"u{last}"), (f"u{middle}", f"u{last}"))
    )
    verdict = "the same" if by_exact == by_played else "NOT the same"
    return [
        f"seed {row.seed}: by {NUM_GAMES_A_PAIR} games a pair {by_played}; by OpenSpiel {by_exact}: {verdict}; {pairs}"
    ]


def spiel_advantage(own: Table, other: Table) -> float:
    """What `own` earns a game against `other` by OpenSpiel, sides swapped."""
    import pyspiel
    from open_spiel.python.algorithms.expected_game_score import policy_value

    game = pyspiel.load_game("kuhn_poker")
    mine, theirs = spiel_policy(game, own), spiel_policy(game, other)
    first = policy_value(game.new_initial_state(), [mine, theirs])[0]
    second = policy_value(game.new_initial_state(), [theirs, mine])[1]
    return float(first + second) / 2


def spiel_policy(game: Any, table: Table) -> Any:
    """OpenSpiel's policy of a table of Kuhn poker."""
    from open_spiel.python.policy import TabularPolicy

    policy = TabularPolicy(game)
    for state in policy.states:
        told = state.information_state_string()
        chances = table["JQK"[int(told[0])] + told[1:]]
        policy.policy_for_key(told)[:] = [chances["p"], chances["b"]]
    return policy


def played_matrix(policies: Mapping[str, Table], *, seed: int) -> Any:
    """The payoff matrix of games between policies of Kuhn poker, sides swapped, with equal deals for each pair."""
    from components.population.payoffs import PayoffMatrix, PlayedGame, swapped_matches

    games, matrix = [], PayoffMatrix()
    for one, other in combinations(policies, 2):
        for match in swapped_matches(one, other, problems=range(NUM_GAMES_A_PAIR // 2), seed=seed):
            earned = played_game(policies[match.first], policies[match.second], Random(match.seed))
            games.append(
                PlayedGame(
                    order=len(games),
                    first=match.first,
                    second=match.second,
                    first_return=earned,
                    second_return=-earned,
                )
            )
    return matrix.after(games)


def played_game(first: Table, second: Table, rng: Random) -> float:
    """What the first player earns in one game whose deal is the first draw of `rng`."""
    cards, history = rng.choices(list(permutations("JQK", 2)))[0], ""
    while history not in ("pp", "bp", "bb", "pbp", "pbb"):
        player = len(history) % 2
        chances = (first, second)[player][cards[player] + history]
        history += rng.choices(list(chances), list(chances.values()))[0]
    if history in ("bp", "pbp"):  # the second folds, or the first
        return 1.0 if history == "bp" else -1.0
    return (2.0 if history.endswith("bb") else 1.0) * (1 if "JQK".index(cards[0]) > "JQK".index(cards[1]) else -1)


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


def reached(row: Row) -> Reached:
    """Where a run ended, by the average of the policies after the last half of its steps."""
    from components.environments.social.rules.equilibria import pure_equilibria

    rules = rules_of(row.game)
    late = mean_table(row.tables[1 + row.num_steps // 2 :])
    cooperation_A = tuple(at["cooperate"] for at in late.values())
    last_A = tuple(at["cooperate"] for at in row.tables[-1].values())
    pure = pure_equilibria(rules.payoffs, rules.num_members)
    nearest = min(pure, key=lambda actions: sum(_miss(c, a) for c, a in zip(cooperation_A, actions, strict=True)))
    return Reached(
        cooperation_A=cooperation_A,
        mean_payoff=expected_mean_payoff(rules, cooperation_A),
        last_payoff=expected_mean_payoff(rules, last_A),
        equilibrium="".join("C" if action == "cooperate" else "D" for action in nearest),
        equilibrium_payoff=sum(rules.payoffs(nearest)) / rules.num_members,
    )


def _miss(chance: float, action: str) -> float:
    return 1 - chance if action == "cooperate" else chance


def rules_of(game: str) -> Any:
    """The rules of one of the games of one joint action, without noise."""
    from benchmarks.population_runs import Order
    from components.session.scenario import scenario_of

    scenario = scenario_of(Order(game=game, seed=0, num_steps=1).config())
    problem = scenario.family.problem(scenario.options, split="test", index=0, seed=0)
    return scenario.family.referee().start(problem).state.rules


def expected_mean_payoff(rules: Any, cooperation_A: Sequence[float]) -> float:
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
        found = reached(row)
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
        earned = [expected_mean_payoff(rules, chances) for chances in chances_S_A]
        per_agent = [_interval([chances[a] for chances in chances_S_A]) for a in range(rules.num_members)]
        body.append([mode, predicted(mode, rules), *per_agent, _interval(earned)])
    titles = ["mode", "predicted", *(f"player_{a} cooperates" for a in range(4)), "raw return"]
    return [markdown(titles, body)]


def led_lines(rows: Sequence[Row]) -> list[str]:
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


def predicted(mode: Any, rules: Any) -> str:
    """The pure equilibria of a game under a mode, in letters; mixed at the correlation of members who act independently, the
    leader first.

    **Example** hierarchical in a public good of share .8: CDDD.
    """
    from components.environments.social.rules.equilibria import pure_equilibria
    from components.population.training_modes import mode_matrix

    matrix = mode_matrix(mode, rules.num_members, correlation=correlation_of_coins(rules))

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
    if kuhn := [row for row in rows if row.game == "kuhn"]:
        lines += [*kuhn_lines(kuhn), ""]
    if games := [row for row in rows if row.game in GAMES and not row.game.startswith("public_goods")]:
        lines += [*game_lines(games), ""]
    if modes := [row for row in rows if row.game.startswith("public_goods,")]:
        lines += [*mode_lines(modes), ""]
    if led := [row for row in rows if row.game in (LED, LED_UNPAID)]:
        lines += [*led_lines(led), ""]
    return lines
