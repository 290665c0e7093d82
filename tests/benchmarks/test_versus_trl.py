"""The arithmetic of the comparison with TRL."""

import math
from typing import Any

import pytest

from tests.benchmarks.memory import Footprint
from tests.benchmarks.versus_trl.outcomes import Outcome, goal_ratio, median_ratio, outcome, samples_to_goal
from tests.benchmarks.versus_trl.report import reached, verdicts


def ran(arm: str, number: int, **values: Any) -> Outcome:
    given = {
        "samples_per_second": 100.0,
        "tokens_per_second": 500.0,
        "cpu_seconds": 1.0,
        "pss_mib": 1000.0,
        "rss_mib": 1500.0,
    }
    more = {"num_processes": 1, "num_samples": 8000, "samples_to_goal": 4000, "last_success": 0.9}
    return Outcome(arm=arm, round=number, seed=number, **{**given, **more, **values})


def test_the_goal_is_reached_by_the_mean_of_the_newest_steps() -> None:
    assert samples_to_goal([0.8, 0.9, 0.9, 0.9], 256, window=2) == 768
    assert samples_to_goal([1.0, 0.7, 0.9], 256, window=2) is None
    assert samples_to_goal([1.0], 256, window=2) is None


def test_speed_leaves_out_the_first_step_and_all_before_it() -> None:
    result = {"step_ended_at": [50.0, 52.0, 54.0], "success_rates": [0.0, 0.5, 1.0], "num_samples": 512,
              "num_tokens": [9999, 1000, 3000]}  # fmt: skip
    seen = Footprint(pss_mib=1.0, rss_mib=2.0, num_processes=3, cpu_seconds=4.0)
    told = outcome("troupe", 0, 0, result, seen)
    assert (told.samples_per_second, told.tokens_per_second, told.num_samples) == (256.0, 1000.0, 1536)
    assert told.last_success == 0.5


def test_ratios_are_of_one_round_whatever_the_order() -> None:
    ours = [ran("troupe", 1, samples_per_second=300.0), ran("troupe", 0, samples_per_second=100.0)]
    theirs = [ran("trl", 0, samples_per_second=50.0), ran("trl", 1, samples_per_second=100.0)]
    assert median_ratio(ours, theirs, "samples_per_second") == 2.5
    ratio, low, high = goal_ratio(
        [ran("troupe", 0, samples_to_goal=2000), ran("troupe", 1, samples_to_goal=8000)],
        [ran("trl", 0), ran("trl", 1, samples_to_goal=None)],
    )
    half = 12.706 * (math.log(2.0) / 2**0.5) / 2**0.5  # of log 1/2 and log 1
    assert (ratio, low, high) == pytest.approx((0.5**0.5, 0.5**0.5 * math.exp(-half), 0.5**0.5 * math.exp(half)))


def test_what_is_lost_is_called_missed() -> None:
    slow = [ran("troupe", n, samples_per_second=149.0, pss_mib=1001.0, samples_to_goal=None) for n in range(3)]
    fast = [ran("troupe", n, samples_per_second=151.0, pss_mib=999.0) for n in range(3)]
    theirs = [ran("trl", n) for n in range(3)]
    assert verdicts([*slow, *theirs], "troupe", "trl").count("MISSED") == 3
    assert verdicts([*fast, *theirs], "troupe", "trl").count("held") == 3
    unfinished = [ran("trl", n, num_samples=3999, samples_to_goal=None) for n in range(3)]
    assert verdicts([*fast, *unfinished], "troupe", "trl").count("not compared") == 1
    assert (reached(slow), reached(fast)) == (">8000 (0/3)", "4000 (3/3)")
