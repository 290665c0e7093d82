"""`troupe compare`: paired differences on the same problems, and a gate on their lower bound."""

import json
from random import Random

import pytest
from typer.testing import CliRunner

from components.errors import ConfigurationError
from components.evaluation.statistics import paired_interval
from troupe.cli import app
from troupe.teams import comparing
from troupe.teams.comparing import compare
from troupe.teams.evaluation import evaluate
from troupe.teams.reports import EvaluationReport


def compared(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["compare", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout


def test_subjects_play_the_same_problems_and_their_difference_is_paired() -> None:
    report = compare(["random", "expert", "noop"], "plan_path", num_problems=40, seed=3)
    random = evaluate("random", "plan_path", num_problems=40, seed=3)
    assert report.reports[0] == random
    expert, noop = report.comparisons
    assert (expert.base, expert.other, expert.num_lost) == ("random", "expert", 0)
    assert expert.difference == pytest.approx(1.0 - random.success_rate)
    assert expert.interval == paired_interval([float(x) for x in random.solved_P], [1.0] * 40, num_samples=1)
    assert noop.difference == -random.success_rate


def test_the_gate_reads_the_lower_bound_and_decides_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two subjects whose difference is 0 in the estimate, and may be as low as -0.1."""
    code, told = compared("expert", "expert", "--suite", "plan_path", "--episodes", "30", "--fail-below", "0.2")
    assert (code, "passes: the difference may be as low as" in told) == (0, True)

    def played(who: str, suite: str | None, *, num_problems: int, **_: object) -> EvaluationReport:
        solved = [Random(f"{who}{number}").random() < 0.5 for number in range(num_problems)]
        return EvaluationReport(
            agent=who, success_rate=sum(solved) / num_problems, n=num_problems, interval=(0.0, 1.0), mean_reward=0.0,
            suite="x/test", sampling="greedy", problems_P=tuple(map(str, range(num_problems))), solved_P=tuple(solved),
        )  # fmt: skip

    monkeypatch.setattr(comparing, "evaluate", played)
    code, told = compared("a", "b", "--episodes", "100", "--fail-below", "0.02", "--json")
    report = json.loads(told)
    (gate,), (pair,) = report["gates"], report["comparisons"]
    assert (code, gate["passes"]) == (1, False)
    assert gate["lower_bound"] == pair["interval"][0] < -0.02
    assert gate["num_problems_needed"] > 100
    assert {"agent", "success_rate", "n", "interval", "mean_reward"} <= report["reports"][0].keys()
    assert "solved_P" not in report["reports"][0]
    code, told = compared("a", "b", "--episodes", "100", "--fail-below", "0.5")
    assert (code, "x/test, greedy, 100 problems, seed 0" in told) == (0, True)


@pytest.mark.parametrize(
    ("subjects", "wanted", "told"),
    [
        (["expert"], {}, "name at least two subjects, the base first"),
        (["expert", "noop"], {"margin": 2.0}, r"--fail-below 2\.0: give the largest loss"),
        (["expert", "noop@3"], {}, "only a run has steps"),
        (["expert", "run@x"], {}, "'x' is no step"),
    ],
)
def test_what_is_no_comparison_is_refused(subjects: list[str], wanted: dict[str, float], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        compare(subjects, "plan_path", num_problems=5, **wanted)


def test_subjects_of_other_problems_are_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = iter((0, 1))
    monkeypatch.setattr(
        comparing, "evaluate", lambda who, suite, *, seed, **rest: evaluate(who, suite, seed=next(seeds), **rest)
    )
    with pytest.raises(ConfigurationError, match=r"are no pair: problem \d+ is .*--suite plan_path"):
        compare(["expert", "noop"], "plan_path", num_problems=5)
