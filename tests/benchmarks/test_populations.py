"""The arithmetic of the benchmark of populations, on tables by hand."""

import re
from collections.abc import Callable, Mapping
from math import exp
from pathlib import Path
from random import Random
from typing import Any

import pyspiel
import pytest

from benchmarks.population_report import (
    PokerRun,
    compute_mean_payoff,
    correlation_of_coins,
    find_endpoint,
    predict_equilibria,
    rules_of,
    scenario_of_game,
)
from benchmarks.population_runs import GAMES, MODES, POKERS, Order, Row, load_row, orders
from benchmarks.population_tables import Decision, chances_of_choices, decisions, spiel_decisions
from benchmarks.spiel_policies import (
    SpielTable,
    advantage,
    average_policy,
    exploitability,
    information_states,
    play_game,
    spiel_tables,
)
from components.generation.base import GenerationRequest
from tests.components.generation.local.test_engine import load_engine
from tests.components.generation.tiny_models import random_model
from tests.kuhn_poker import equilibrium

KUHN, LEDUC = pyspiel.load_game("kuhn_poker"), pyspiel.load_game("leduc_poker")
SETS = [card + past for card in "JQK" for past in ("", "pb", "p", "b")]
UNIFORM = {name: {"p": 0.5, "b": 0.5} for name in SETS}
BETS = {name: {"p": 0.0, "b": 1.0} for name in SETS}
PASSES = {name: {"p": 1.0, "b": 0.0} for name in SETS}
WORDS = {"p": "passes", "b": "bets"}
CARDS = {"J": "Jack", "Q": "Queen", "K": "King"}


def describe_information(information: str) -> str:
    """What the environment tells of an information set of Kuhn poker."""
    past = [f"player_{turn % 2} {WORDS[act]}" for turn, act in enumerate(information[1:])]
    card = f"your card: {CARDS[information[0]]} of Jack Queen King"
    seat = f"player_{len(past) % 2}"
    return f"{seat}: {seat} of 2\n{card}\n{', '.join(past) or 'nobody has acted'}\nPass or Bet?"


def kuhn(policy: Any) -> SpielTable:
    """A policy by card and history as OpenSpiel names it."""
    return {f"{'JQK'.index(name[0])}{name[1:]}": {0: at["p"], 1: at["b"]} for name, at in policy.items()}


def average_tables(*policies: Any) -> SpielTable:
    return average_policy(information_states(KUHN), [kuhn(each) for each in policies])


def row(game: str, *tables: Any, seed: int = 0, **more: Any) -> Row:
    return Row(game=game, seed=seed, num_steps=len(tables) - 1, training_cpu_seconds=1.0, tables=tables, **more)


def kuhn_row(*policies: Any) -> Row:
    tables = [
        {describe_information(name): {"Pass": at["p"], "Bet": at["b"]} for name, at in policy.items()}
        for policy in policies
    ]
    return row("kuhn", *tables)


def leduc(weights: Callable[[Decision], Mapping[str, float]]) -> SpielTable:
    """A policy of Leduc poker whose chances are the weights of its words, normalized."""
    scenario, table = scenario_of_game("leduc"), {}
    for each in decisions(scenario, num_problems=0):
        at = weights(each)
        table[each.information] = {word: at[word] / sum(map(at.__getitem__, each.choices)) for word in each.choices}
    (policy,) = spiel_tables(scenario, [table])
    return policy


def without_suits(name: str) -> str:
    """An information state string of Leduc poker with ranks for cards."""
    return re.sub(r"(Private|Public): (\d+)", lambda found: f"{found[1]}: {int(found[2]) // 2}", name)


def cooperating(*chances: float) -> Any:
    return {f"player_{a}: seen": {"cooperate": c, "compete": 1 - c} for a, c in enumerate(chances)}


def test_the_prompts_of_poker_tell_all_information_states_apart_but_by_suits() -> None:
    for game, num_states, num_told in (("kuhn", 12, 12), ("leduc", 936, 288)):
        known = spiel_decisions(scenario_of_game(game))
        assert len(known) == num_states
        pairs = {(without_suits(name), at.information) for name, (_, at) in known.items()}
        assert [len(set(each)) for each in (pairs, *zip(*pairs, strict=True))] == [num_told] * 3


def test_chances_of_choices_are_those_that_the_engine_draws_by(tmp_path: Path) -> None:
    engine, version = load_engine(random_model(), tmp_path)
    choices = tuple((*each, engine.tokenizer.end_token) for each in ((5,), (5, 7), (5, 7, 3), (8, 9), (8, 4)))
    prompts = [(3, 4), (1, 6, 6)]
    found = chances_of_choices(engine, prompts, [choices, choices[:3]])
    for prompt, some, chances in zip(prompts, (choices, choices[:3]), found, strict=True):
        assert sum(chances) == pytest.approx(1, abs=1e-9)
        request = GenerationRequest(
            prompt_tokens=prompt, seeds_K=tuple(range(200)), max_new_tokens=4, temperature=1.0, choices=some
        )
        (drawn,) = engine.generate([request], version)
        assert {each.tokens for each in drawn} == set(some)
        for each in drawn:
            assert exp(sum(each.logprobs)) == pytest.approx(chances[some.index(each.tokens)], rel=1e-4)


def test_exploitabilities_are_those_known_of_plain_policies() -> None:
    uniform = leduc(lambda at: dict.fromkeys(at.choices, 1.0))
    assert exploitability(LEDUC, uniform) == pytest.approx(2.373611111111111, abs=1e-9)
    assert exploitability(KUHN, kuhn(UNIFORM)) == pytest.approx(11 / 24, abs=1e-9)
    assert exploitability(KUHN, kuhn(equilibrium(0.2))) == pytest.approx(0, abs=1e-9)
    folding = leduc(lambda at: {"Fold": 1.0, "Call": 0.0 if "Fold" in at.choices else 1.0, "Raise": 0.0})
    assert exploitability(LEDUC, folding) == pytest.approx(1, abs=1e-9), "who folds to each raise loses its ante"
    raising = leduc(lambda at: {"Fold": 0.0, "Call": 0.0 if "Raise" in at.choices else 1.0, "Raise": 1.0})
    assert advantage(LEDUC, raising, folding) == pytest.approx(1, abs=1e-9)
    assert [play_game(LEDUC, *pair, Random(0)) for pair in ((raising, folding), (folding, raising))] == [1, -1]


def test_the_average_is_of_trained_policies_and_the_last_iterate_stands_beside_it() -> None:
    run = PokerRun(kuhn_row(UNIFORM, equilibrium(0.1), BETS, PASSES))
    assert [run.last(step) for step in range(4)] == pytest.approx([11 / 24, 0, exploitability(KUHN, kuhn(BETS)), 1])
    assert run.averages[0] == run.last(0)
    assert run.averages[1] == pytest.approx(0, abs=1e-12), "the untrained one is not in it"
    assert run.averages[3] < 1
    assert PokerRun(kuhn_row(PASSES, PASSES, BETS, equilibrium(0.1))).late() == pytest.approx(
        exploitability(KUHN, average_tables(BETS, equilibrium(0.1)))
    )
    assert (
        f"0.458 (0.458) after 0, 0.000 (0.000) after 1, {run.averages[2]:.3f} ({run.last(2):.3f}) after 2, "
        in run.curve_line()
    )


def test_who_never_passes_has_no_say_about_what_follows_a_pass() -> None:
    average = average_tables(PASSES | {"Kpb": {"p": 0.0, "b": 1.0}}, BETS | {"Kpb": {"p": 1.0, "b": 0.0}})
    assert average["2pb"] == {0: 0.0, 1: 1.0}
    assert average["2"] == average["2b"] == {0: 0.5, 1: 0.5}
    assert average_tables(BETS, BETS)["2pb"] == {0: 0.0, 1: 1.0}, "where nobody passes, plainly"


def test_an_average_plays_like_one_of_its_policies_picked_before_the_game() -> None:
    rng = Random(0)
    random = [leduc(lambda at: {choice: rng.random() for choice in ("Fold", "Call", "Raise")}) for _ in range(3)]
    for game, policies, foe in (
        (KUHN, [kuhn(each) for each in (equilibrium(0.3), UNIFORM, PASSES)], kuhn(BETS)),
        (LEDUC, random[:2], random[2]),
    ):
        mixed = average_policy(information_states(game), policies)
        earned = sum(advantage(game, each, foe) for each in policies) / len(policies)
        assert advantage(game, mixed, foe) == pytest.approx(earned, abs=1e-9)


def test_played_games_pay_what_openspiel_expects() -> None:
    rng = Random(0)
    for one, other in ((UNIFORM, equilibrium(0.2)), (PASSES, UNIFORM), (BETS, equilibrium(0.2))):
        mine, theirs = kuhn(one), kuhn(other)
        earned = [play_game(KUHN, mine, theirs, rng) - play_game(KUHN, theirs, mine, rng) for _ in range(4000)]
        assert sum(earned) / 8000 == pytest.approx(advantage(KUHN, mine, theirs), abs=0.06)


def test_checkpoints_are_ordered_alike_by_games_and_by_openspiel() -> None:
    assert advantage(KUHN, kuhn(BETS), kuhn(PASSES)) == pytest.approx(1), "who always bets wins each ante"
    assert advantage(KUHN, kuhn(UNIFORM), kuhn(UNIFORM)) == 0
    quarter = {name: {"p": 0.75, "b": 0.25} for name in SETS}
    line = PokerRun(kuhn_row(PASSES, quarter, UNIFORM)).ordering_line()
    assert "by OpenSpiel u0 < u1 < u2: the same" in line


def test_an_equilibrium_is_reached_by_the_average_of_the_late_half() -> None:
    assert compute_mean_payoff(rules_of("coop_compete, 2"), (0.5, 0.5)) == pytest.approx(0.7125)
    early, late = cooperating(0.0, 0.0), cooperating(0.96, 1.0)
    found = find_endpoint(row("coop_compete, 2", early, early, early, late, cooperating(1.0, 0.96)))
    assert found.cooperation_A == pytest.approx((0.98, 0.98))
    assert (found.equilibrium, found.equilibrium_payoff) == ("CC", pytest.approx(0.85))
    assert found.is_within
    assert not find_endpoint(row("coop_compete, 2", early, cooperating(0.6, 0.6))).is_within, (
        "half way is no equilibrium"
    )
    battle = find_endpoint(row("team_battle, 8", early, cooperating(*[0.0] * 4, *[1.0] * 4)))
    assert (battle.equilibrium, battle.is_within) == ("DDDDCCCC", True)
    staged = find_endpoint(row("staged, 8", early, cooperating(0.0, 0.0, *[1.0] * 6)))
    assert (staged.equilibrium, staged.mean_payoff) == ("DDCCCCCC", pytest.approx(0.97875))


def test_a_run_is_named_by_what_decides_it_and_kept_only_when_it_is_finished(tmp_path: Any) -> None:
    first, other = (Order(game="kuhn", seed=0, num_steps=2, overrides=each) for each in ((), ("loss.clip_high=0.3",)))
    assert first.run_id != other.run_id
    assert first.run_id == Order(game="kuhn", seed=0, num_steps=2).run_id
    assert load_row(first, tmp_path) is None
    assert [order.seed for order in orders(["kuhn", "maze"], seeds=2, num_steps=None)] == [0, 0, 1, 1]
    for game in GAMES | POKERS:
        assert Order(game=game, seed=0, num_steps=1).config().method.type == "population"
    assert {f"public_goods, {mode}" for mode in MODES} <= GAMES.keys()
    assert [predict_equilibria(mode, rules_of(f"public_goods, {mode}")) for mode in MODES] == [
        "CCCC",
        "DDDD",
        "CCCC",
        "CDDD",
    ]
    assert correlation_of_coins(rules_of("public_goods, mixed")) == pytest.approx(0.96 / 1.96)
