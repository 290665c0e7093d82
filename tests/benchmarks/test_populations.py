"""The arithmetic of the benchmark of populations, on tables by hand."""

from random import Random
from typing import Any

import pytest

from benchmarks.population_report import (
    average_policy,
    correlation_of_coins,
    expected_mean_payoff,
    exploitabilities,
    exploitability,
    late_exploitability,
    lines_of,
    ordering_lines,
    played_game,
    predicted,
    reached,
    rules_of,
    spiel_advantage,
)
from benchmarks.population_runs import GAMES, LED, MODES, Order, Row, kept, orders
from benchmarks.population_tables import kuhn_information, mean_table, with_both_chances
from tests.kuhn_poker import equilibrium

SETS = [card + past for card in "JQK" for past in ("", "pb", "p", "b")]
UNIFORM = {name: {"p": 0.5, "b": 0.5} for name in SETS}
BETS = {name: {"p": 0.0, "b": 1.0} for name in SETS}
PASSES = {name: {"p": 1.0, "b": 0.0} for name in SETS}
WORDS = {"p": "passes", "b": "bets"}
CARDS = {"J": "Jack", "Q": "Queen", "K": "King"}


def told(information: str) -> str:
    """What the environment tells of an information set."""
    past = [f"player_{turn % 2} {WORDS[act]}" for turn, act in enumerate(information[1:])]
    card = f"your card: {CARDS[information[0]]} of Jack Queen King"
    return f"player_{len(past) % 2}: player_{len(past) % 2} of 2\n{card}\n{', '.join(past) or 'nobody has acted'}"


def row(game: str, *tables: Any, seed: int = 0, **more: Any) -> Row:
    return Row(game=game, seed=seed, num_steps=len(tables) - 1, training_cpu_seconds=1.0, tables=tables, **more)


def kuhn_row(*policies: Any) -> Row:
    tables = [{told(name): {"Pass": at["p"], "Bet": at["b"]} for name, at in policy.items()} for policy in policies]
    return row("kuhn", *tables)


def cooperating(*chances: float) -> Any:
    return {f"player_{a}: seen": {"cooperate": c, "compete": 1 - c} for a, c in enumerate(chances)}


def test_what_a_player_sees_of_kuhn_poker_is_named_by_card_and_history() -> None:
    for name in ("J", "Qb", "Kp", "Qpb"):
        assert kuhn_information(told(name)) == name
    assert with_both_chances(("compete", "cooperate"), "cooperate", 0.25) == {"compete": 0.75, "cooperate": 0.25}
    assert with_both_chances(("go",), "go", 1.0) == {"go": 1.0}
    with pytest.raises(AssertionError, match="tables are of two choices"):
        with_both_chances(("a", "b", "c"), "a", 1.0)


def test_the_average_is_of_trained_policies_and_the_last_iterate_stands_beside_it() -> None:
    curve = exploitabilities(kuhn_row(UNIFORM, equilibrium(0.1), BETS, PASSES))
    assert [last for last, _ in curve] == pytest.approx([11 / 24, 0, exploitability(BETS), 1])
    assert curve[1][1] == pytest.approx(0, abs=1e-12), "the untrained one is not in it"
    assert curve[3][1] < 1
    assert late_exploitability(kuhn_row(PASSES, PASSES, BETS, equilibrium(0.1))) == pytest.approx(
        exploitability(average_policy([BETS, equilibrium(0.1)]))
    )


def test_who_never_passes_has_no_say_about_what_follows_a_pass() -> None:
    average = average_policy([PASSES | {"Kpb": {"p": 0.0, "b": 1.0}}, BETS | {"Kpb": {"p": 1.0, "b": 0.0}}])
    assert average["Kpb"] == {"p": 0.0, "b": 1.0}
    assert average["K"] == average["Kb"] == {"p": 0.5, "b": 0.5}
    assert average_policy([BETS, BETS])["Kpb"] == {"p": 0.0, "b": 1.0}, "where nobody passes, plainly"
    mixed = average_policy([equilibrium(0.3), UNIFORM, PASSES])
    for foe in (equilibrium(0.0), BETS):
        earned = [spiel_advantage(each, foe) for each in (mixed, equilibrium(0.3), UNIFORM, PASSES)]
        assert earned[0] == pytest.approx(sum(earned[1:]) / 3), "it plays like one of them picked before the game"


def test_played_games_pay_what_openspiel_expects() -> None:
    rng = Random(0)
    for one, other in ((UNIFORM, equilibrium(0.2)), (PASSES, UNIFORM), (BETS, equilibrium(0.2))):
        earned = [played_game(one, other, rng) - played_game(other, one, rng) for _ in range(4000)]
        assert sum(earned) / 8000 == pytest.approx(spiel_advantage(one, other), abs=0.06)


def test_checkpoints_are_ordered_alike_by_games_and_by_openspiel() -> None:
    assert spiel_advantage(BETS, PASSES) == pytest.approx(1), "who always bets wins each ante"
    assert spiel_advantage(UNIFORM, UNIFORM) == 0
    quarter = {name: {"p": 0.75, "b": 0.25} for name in SETS}
    (line,) = ordering_lines(kuhn_row(PASSES, quarter, UNIFORM))
    assert "by OpenSpiel u0 < u1 < u2: the same" in line


def test_an_equilibrium_is_reached_by_the_average_of_the_late_half() -> None:
    assert expected_mean_payoff(rules_of("coop_compete, 2"), (0.5, 0.5)) == pytest.approx(0.7125)
    early, late = cooperating(0.0, 0.0), cooperating(0.96, 1.0)
    found = reached(row("coop_compete, 2", early, early, early, late, cooperating(1.0, 0.96)))
    assert found.cooperation_A == pytest.approx((0.98, 0.98))
    assert (found.equilibrium, found.equilibrium_payoff) == ("CC", pytest.approx(0.85))
    assert found.is_within
    assert not reached(row("coop_compete, 2", early, cooperating(0.6, 0.6))).is_within, "half way is no equilibrium"
    battle = reached(row("team_battle, 8", early, cooperating(*[0.0] * 4, *[1.0] * 4)))
    assert (battle.equilibrium, battle.is_within) == ("DDDDCCCC", True)
    staged = reached(row("staged, 8", early, cooperating(0.0, 0.0, *[1.0] * 6)))
    assert (staged.equilibrium, staged.mean_payoff) == ("DDCCCCCC", pytest.approx(0.97875))


def test_modes_are_told_with_their_prediction_and_an_interval_over_seeds() -> None:
    rows = [row("public_goods, cooperative", cooperating(*[0.5] * 4), cooperating(*[c] * 4), seed=seed)
            for seed, c in enumerate((0.9, 0.95, 1.0))]  # fmt: skip
    text = "\n".join(
        lines_of([*rows, row("maze", seed=1, spl=0.93), row("coop_compete, 2", *[cooperating(1.0, 1.0)] * 2)])
    )
    assert "| cooperative | CCCC | 0.95 ± 0.12 |" in text
    assert "SPL 0.930" in text
    assert "| CC 0.850 | yes |" in text
    steps = [{"population/compliance": c, "population/player_0/return": 3 * c} for c in (0.5, 0.6, 0.8, 0.9)]
    led = "\n".join(lines_of([row(LED, cooperating(1.0), metrics=steps, seed=seed) for seed in range(2)]))
    assert f"| {LED} | 0.50 ± 0.00 | 0.90 ± 0.00 | 0.40 ± 0.00 | 1.50 ± 0.00 | 2.70 ± 0.00 | 1.20 ± 0.00 |" in led
    assert mean_table([cooperating(0.2), cooperating(0.4)])["player_0: seen"]["cooperate"] == pytest.approx(0.3)


def test_a_run_is_named_by_what_decides_it_and_kept_only_when_it_is_finished(tmp_path: Any) -> None:
    first, other = (Order(game="kuhn", seed=0, num_steps=2, overrides=each) for each in ((), ("loss.clip_high=0.3",)))
    assert first.run_id != other.run_id
    assert first.run_id == Order(game="kuhn", seed=0, num_steps=2).run_id
    assert kept(first, tmp_path) is None
    assert [order.seed for order in orders(["kuhn", "maze"], seeds=2, num_steps=None)] == [0, 0, 1, 1]
    for game in GAMES:
        assert Order(game=game, seed=0, num_steps=1).config().population is not None
    assert {f"public_goods, {mode}" for mode in MODES} <= GAMES.keys()
    assert [predicted(mode, rules_of(f"public_goods, {mode}")) for mode in MODES] == ["CCCC", "DDDD", "CCCC", "CDDD"]
    assert correlation_of_coins(rules_of("public_goods, mixed")) == pytest.approx(0.96 / 1.96)
