"""`troupe compare`: paired differences on the same problems, and a gate on their lower bound."""

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from typer.testing import CliRunner

from components.errors import ConfigurationError
from components.evaluation.comparison import compare_pairs
from components.evaluation.statistics import compute_paired_interval
from components.schema import EvalReport
from tests.components.tracking.reports import evaluation
from troupe.cli import app
from troupe.teams import comparing
from troupe.teams.comparing import ComparisonReport, compare
from troupe.teams.comparison_page import comparison_page, write_comparison
from troupe.teams.evaluation import evaluate


def run_compare(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["compare", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout


def test_subjects_play_the_same_problems_and_their_difference_is_paired() -> None:
    report = compare(["random", "expert", "noop"], "plan_path", num_problems=40, seed=3)
    random = evaluate("random", "plan_path", num_problems=40, seed=3)
    assert replace(report.reports[0], metrics={}) == replace(random, metrics={})
    expert, noop = report.comparisons
    assert (expert.base, expert.other, expert.num_lost) == ("random", "expert", 0)
    assert expert.difference == pytest.approx(1.0 - random.success_rate)
    assert expert.interval == compute_paired_interval(random.rates_P, [1.0] * 40, num_samples=1)
    assert noop.difference == -random.success_rate


def test_the_gate_reads_the_lower_bound_and_decides_the_exit_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two subjects whose difference is 0 in the estimate, and may be as low as -0.1."""
    code, told = run_compare("expert", "expert", "--suite", "plan_path", "--problems", "30", "--fail-below", "0.2")
    assert (code, "passes: the difference may be as low as" in told) == (0, True)

    def play_subject(subject: str, suite: str | None, *, num_problems: int, **_: object) -> EvalReport:
        solved_P = tuple(int(Random(f"{subject}{number}").random() < 0.5) for number in range(num_problems))
        return replace(evaluation(0), agent=subject, n=num_problems, num_solved_P=solved_P)

    monkeypatch.setattr(comparing, "evaluate", play_subject)
    code, told = run_compare("a", "b", "--problems", "100", "--fail-below", "0.02", "--json")
    report = json.loads(told)
    (gate,), (pair,) = report["gates"], report["comparisons"]
    assert (code, gate["passes"]) == (1, False)
    assert gate["lower_bound"] == pair["interval"][0] < -0.02
    assert gate["num_problems_needed"] > 100
    assert {"agent", "success_rate", "n", "interval", "mean_reward"} <= report["reports"][0].keys()
    assert "num_solved_P" not in report["reports"][0]
    code, told = run_compare("a", "b", "--problems", "100", "--fail-below", "0.5")
    assert (code, "plan_path/test 5f0c00aa11bb, greedy, 100 problems, seed 0" in told) == (0, True)


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
        comparing,
        "evaluate",
        lambda subject, suite, *, seed, **rest: evaluate(subject, suite, seed=next(seeds), **rest),
    )
    with pytest.raises(ConfigurationError, match=r"are no pair: the suite is .*--suite plan_path"):
        compare(["expert", "noop"], "plan_path", num_problems=5)


def test_in_a_game_each_player_has_a_column_of_what_it_earns(monkeypatch: pytest.MonkeyPatch) -> None:
    def play_subject(subject: str, suite: str | None, **_: object) -> EvalReport:
        paid = {"ann": len(subject) / 2, "bob": -0.25}
        metrics = {f"eval/greedy/{agent}/payoff": payoff for agent, payoff in paid.items()}
        return replace(evaluation(0), agent=subject, metrics=metrics, mean_reward=7.0)

    monkeypatch.setattr(comparing, "evaluate", play_subject)
    _, told = run_compare("a", "bb")
    title, *rows = told.splitlines()[1:4]
    assert "95% interval       pays ann     pays bob  keeps good" in title
    assert [row.split()[5:7] for row in rows[:2]] == [["0.500", "-0.250"], ["1.000", "-0.250"]]
    assert {len(row) for row in rows[:2]} == {len(title)}
    page = comparison_page(compare(["a", "bb"]), {})
    assert '<th class="n">pays ann</th><th class="n">pays bob</th>' in page
    assert ("7.000" in told, "7.000" in page, "mean reward" in told + page) == (False, False, False)


def test_a_page_has_differences_gates_and_the_curves_of_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    order = ["random", "expert", "--suite", "plan_path", "--problems", "20", "--fail-below", "0.5", "--html", str(page)]
    code, told = run_compare(*order)
    text = page.read_text()
    assert (code, told.splitlines()[-1]) == (0, f"next: open {page}")
    assert "expert less random" in text
    assert "+1.000" in text
    assert "expert passes: the difference" in text
    assert "polyline" not in text, "no run, no curve"
    reports = (replace(evaluation(0), agent="<i>@3"), replace(evaluation(0), agent="b@9"))
    report = ComparisonReport(seed=0, reports=reports, comparisons=(compare_pairs(*reports),))
    drawn = comparison_page(report, {"<i>": [(0, 0.25), (4, 0.75)], "b": []})
    assert drawn.count('points="0.0,165.0 560.0,55.0"') == drawn.count("<polyline") == 1
    assert "<i>" not in drawn
    scripts = replace(report, reports=(replace(reports[0], agent="expert"), replace(reports[1], agent="noop")))
    with pytest.raises(ConfigurationError, match=r"--html .*: Is a directory"):
        write_comparison(scripts, tmp_path, store=None)
