"""The benchmark: bars by hand, intervals by hand, and a comparison that cannot favour one side."""

import json
from math import sqrt
from statistics import fmean, stdev
from typing import Any

import pytest

from components.environments.social.coop_compete import PairGame
from components.identity import seed_for
from components.population.pairs import play_pair
from flows.api.multi_model import CoopCompeteEnv, run_benchmark


def test_the_report_says_who_wins_and_that_the_step_size_is_the_reason() -> None:
    report = run_benchmark(6, 80, coop_level=0.2)
    assert report["metrics"]["AC"]["avg_A"] == pytest.approx(0.75, abs=0.01)
    assert report["metrics"]["AP"]["avg_B"] == pytest.approx(0.9, abs=0.01)
    assert report["comparison"]["episodes_saved"]["interval"][0] > 0
    assert report["comparison"]["episodes_saved"]["better"] == "OUR"
    assert report["comparison"]["episodes_saved_at_equal_steps"]["better"] == "PG"
    game = PairGame(cooperation_level=0.2)
    ends = [
        play_pair(game, "PG", episodes=80, seed=seed_for(42, "run", number), lr=0.5).last_mean() for number in range(6)
    ]
    half = 1.959964 * stdev(ends) / sqrt(6)
    assert report["metrics"]["PG"]["last_20_interval"] == pytest.approx((fmean(ends) - half, fmean(ends) + half))
    assert list(json.loads(json.dumps(report))["metrics"]) == ["AC", "AP", "PG", "OUR"]
    assert report == run_benchmark(6, 80, coop_level=0.2)
    assert run_benchmark(1, 1)["comparison"]["last_20_gain"]["better"] == "no difference is shown"


def test_the_game_of_two_pays_as_its_rules_say_and_begins_again() -> None:
    env = CoopCompeteEnv(0.6, 0.3, horizon=2)
    for pair, payoff in (((1, 1), 0.85), ((0, 0), 0.8), ((1, 0), 0.6)):
        rewards = env.step(*pair)
        assert rewards == pytest.approx((payoff, payoff), abs=0.2)
        assert rewards[0] != rewards[1], "each has noise of its own"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: run_benchmark(2.5, 5), "runs 2.5"),
        (lambda: run_benchmark(2, 0), "episodes 0"),
        (lambda: run_benchmark(1, 1, 2), "coop_level 2"),
        (lambda: run_benchmark(1, 1, horizon=0), "horizon 0"),
        (lambda: CoopCompeteEnv("a"), "cooperation_level 'a'"),
        (lambda: CoopCompeteEnv().step("share", 1), "action_a 'share'"),
    ],
)
def test_what_is_slightly_wrong_is_named(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()
