"""What tables of documents look like in a terminal."""

from typing import Any

from rich.console import Console

from troupe.diagnostics.check import OPTIONAL, Check
from troupe.diagnostics.tables import doctor_table
from troupe.runs.tables import evaluations_table, run_table


def render(document: dict[str, Any], *, width: int) -> list[str]:
    console = Console(width=width, force_terminal=False)
    with console.capture() as captured:
        console.print(run_table(document))
    return captured.get().splitlines()


def test_the_steps_of_two_policies_fit_eighty_columns_uncut() -> None:
    metrics = {
        "rollout/success_rate": 0.512,
        "reward/tool_agent/mean": -0.104,
        "reward/plan_agent/mean": 1.204,
        "reward/plan_agent/std": 0.5,
        "rollout/keep_rate": 0.98,
        "rollout/repair_rate": None,
        "signal/zero_group_frac": 0.25,
    }
    step = {
        "step": 119,
        "metrics": metrics,
        "attempts": {"collect_rollouts": 1, "update_policy": 2},
        "timings": {"time/collect_rollouts_seconds": 101.5, "time/update_policy_seconds": 5.25},
        "checkpoint_digest": {"plan": "0123456789abcdef", "tool": "fedcba9876543210"},
        "checkpoint_parents": {"tool": ["aa", "bb"]},
    }
    document = {
        "run_id": "r", "preset": "plan-path-l3", "specialisation": "L3", "state": "completed", "error": None,
        "num_steps": 120, "evaluations": [], "steps": [step],
    }  # fmt: skip
    lines = render(document, width=80)
    text = "\n".join(lines)
    assert "…" not in text
    (row,) = (line.split() for line in lines if line.lstrip().startswith("119 "))
    assert row[:7] == ["119", "0.51", "1.20", "-0.10", "0.98", "–", "0.25"], (
        "one column a reward's mean, none for its std"
    )
    assert "106.75" in row
    assert "01234567" in text
    assert "fedcba98 of 2" in text
    assert "mixed with those of others" in text
    assert "the best candidate of each group plays on" in " ".join(text.split())
    assert row[8:10] == ["update", "2"], "a stage that ran once is not named"


def test_own_rewards_are_shown_by_component_and_agent() -> None:
    def step(number: int, value: float) -> dict[str, Any]:
        metrics = {
            "reward/tool_agent/own.mean": value,
            "reward/plan_agent/own.mean": -value,
            "reward/plan_agent/mean": 1.0,
        }
        return {"step": number, "metrics": metrics, "attempts": {}, "timings": {}, "checkpoint_digest": {}}

    document = {
        "run_id": "r", "preset": "p", "specialisation": "L1", "state": "completed", "error": None,
        "num_steps": 2, "evaluations": [], "steps": [step(0, 0.25), step(1, 0.5)],
    }  # fmt: skip
    rows = [line.split() for line in render(document, width=80) if line.lstrip().startswith("own.")]
    assert rows == [["own.mean", "plan_agent", "-0.25", "-0.5", "█▁"], ["own.mean", "tool_agent", "0.25", "0.5", "▁█"]]
    plain = {**document, "steps": [{**step(0, 0.0), "metrics": {"reward/plan_agent/mean": 1.0}}]}
    assert "own rewards" not in "\n".join(render(plain, width=80))


def test_what_a_machine_may_lack_is_no_fault() -> None:
    checks = [
        Check(name="gpu", ok=False, detail="none", remedy=f"{OPTIONAL}a CUDA device"),
        Check(name="s3", ok=False, detail="down", remedy="run `troupe up`"),
    ]
    console = Console(width=80, force_terminal=False)
    with console.capture() as captured:
        console.print(doctor_table([check.document() for check in checks]))
    assert [line.split()[0] for line in captured.get().splitlines() if "gpu" in line or "s3" in line] == [
        "optional",
        "not",
    ]


def test_a_table_of_evaluations_says_the_temperatures_of_agents_with_their_own() -> None:
    report = {"step": 0, "sampling": "sample", "success_rate": 0.5, "interval": (0.4, 0.6), "n": 9}
    report |= {"keep_rate": None, "repair_rate": None, "temperatures": None}
    own = evaluations_table([report | {"temperatures": {"judge": 0.7, "ann": 1.2}}, report | {"sampling": "greedy"}])
    assert own.title == "held-out play, without the tree; sample: ann at 1.2, judge at 0.7"
    assert evaluations_table([report]).title == "held-out play, without the tree"


def test_a_run_with_more_steps_than_asked_for_is_not_shown_as_a_part() -> None:
    document = {
        "run_id": "r", "preset": "tiny", "specialisation": "L1", "state": "completed", "error": None,
        "num_steps": 1, "evaluations": [],
        "steps": [{"step": number, "metrics": {}, "attempts": {}, "timings": {}, "checkpoint_digest": {}} for number in (0, 1)],
    }  # fmt: skip
    assert "completed  2 steps, 1 were asked for" in render(document, width=120)[0]
    assert "completed  2 of 3 steps" in render(document | {"num_steps": 3}, width=120)[0]
