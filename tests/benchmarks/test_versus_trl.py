"""The arithmetic of the comparison with TRL."""

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks.footprint import Footprint
from benchmarks.versus_trl.__main__ import arguments, order_of
from benchmarks.versus_trl.order import TROUPE, TUNED
from benchmarks.versus_trl.outcomes import Goal, Outcome, goal_ratio, median_ratio, outcome, samples_to_goal
from benchmarks.versus_trl.referee import Referee
from benchmarks.versus_trl.registry import TASKS, run_config
from benchmarks.versus_trl.report import describe_reached, verdicts
from benchmarks.versus_trl.sums import Sums
from benchmarks.versus_trl.task import problems
from tests.components.generation.tiny_models import make_tagged_tokenizer
from troupe import MalformedAnswer

GOAL = Goal(success=0.9, window_samples=2560)


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
    assert samples_to_goal([0.8, 0.9, 0.9, 0.9], 256, window=2, goal=0.9) == 768
    assert samples_to_goal([1.0, 0.7, 0.9], 256, window=2, goal=0.9) is None
    assert samples_to_goal([1.0], 256, window=2, goal=0.9) is None


def test_speed_leaves_out_the_first_step_and_all_before_it() -> None:
    result = {"step_ended_at": [50.0, 52.0, 54.0], "success_rates": [0.0, 0.5, 1.0], "num_samples": 512,
              "num_tokens": [9999, 1000, 3000]}  # fmt: skip
    seen = Footprint(pss_mib=1.0, rss_mib=2.0, num_processes=3, cpu_seconds=4.0)
    told = outcome("troupe", 0, 0, result, seen, goal=GOAL)
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
    assert verdicts([*slow, *theirs], "troupe", "trl", goal=GOAL).count("MISSED") == 3
    assert verdicts([*fast, *theirs], "troupe", "trl", goal=GOAL).count("held") == 3
    beside_a_server = [
        ran("troupe", n, samples_per_second=151.0, pss_mib=700.0, services_pss_mib=301.0) for n in range(3)
    ]
    told = verdicts([*beside_a_server, *theirs], "troupe", "trl", goal=GOAL)
    assert "peak memory with services: 1.00 times" in told
    assert told.count("MISSED") == 1
    unfinished = [ran("trl", n, num_samples=3999, samples_to_goal=None) for n in range(3)]
    assert verdicts([*fast, *unfinished], "troupe", "trl", goal=GOAL).count("not compared") == 1
    neither = verdicts([*slow, *unfinished], "troupe", "trl", goal=GOAL)
    assert "samples to 0.9: neither came there in 8000 samples" in neither
    assert (describe_reached(slow), describe_reached(fast)) == (">8000 (0/3)", "4000 (3/3)")


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_an_order_of_smollm2_is_one_calculator_with_an_adapter(dtype: str, tmp_path: Path) -> None:
    asked = arguments(["--model", "smollm2", "--problems", "5", "--steps", "2"])
    config = run_config(order_of(asked, tmp_path, arm=TROUPE, number=0, dtype=dtype))
    assert (config.rollout.mode, list(config.agents), config.policies["player"].adapter is None) == (
        "single",
        ["calculator"],
        False,
    )
    assert config.generation.dtype == config.training.dtype == dtype
    assert (config.loss.average_over, config.loss.importance_cap) == ("all", 2.0 if dtype == "bfloat16" else None)
    assert len(problems(config)) == 10
    assert set(TASKS) == {"tiny", "smollm2"}


@pytest.mark.parametrize(
    ("answer", "solved"), [("The answer is 3 + 4 = 7.", True), ("7, because 3 + 4", False), ("It is 17", False)]
)
def test_the_last_number_of_a_sum_counts(answer: str, solved: bool) -> None:
    assert Sums().step({"numbers": [3, 4]}, "calculator", answer).solved is solved


def test_an_answer_without_a_number_is_malformed() -> None:
    with pytest.raises(MalformedAnswer):
        Sums().step({"numbers": [3, 4]}, "calculator", "seven")


@pytest.fixture(scope="module")
def chat_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tokenizer of bytes that has a chat template."""
    folder = tmp_path_factory.mktemp("chat")
    make_tagged_tokenizer().save_pretrained(folder)
    return folder


def test_trl_is_asked_the_very_prompts_of_troupe(chat_folder: Path, tmp_path: Path) -> None:
    asked = arguments(["--model", "smollm2", "--problems", "3", "--steps", "2"])
    config = run_config(order_of(asked, tmp_path, arm=TUNED, number=0, dtype="float32"))
    rows = Referee(config, "calculator", chat_folder).prompts()
    assert [row["number"] for row in rows] == list(range(6))
    first, second = problems(config)[0].payload["numbers"]
    assert rows[0]["prompt"].startswith(f"system:You are a calculator.<|end|>user:What is {first} + {second}?")
    assert rows[0]["prompt"].endswith("<|end|>bot:")


def test_trl_and_troupe_pay_the_same(chat_folder: Path, tmp_path: Path) -> None:
    asked = arguments(["--model", "smollm2", "--problems", "1", "--steps", "1"])
    config = run_config(order_of(asked, tmp_path, arm=TUNED, number=0, dtype="float32"))
    referee = Referee(config, "calculator", chat_folder)
    right = sum(problems(config)[0].payload["numbers"])
    rewards = referee([f"It is {right}.", f"It is {right + 1}.", "seven"], [[1, 2], [3], [4, 5, 6]], [0, 0, 0])
    assert rewards == pytest.approx([1.0, 0.0, -0.1])
    assert (referee.success_rates, referee.num_tokens) == ([1 / 3], [6])
