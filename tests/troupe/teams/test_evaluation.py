"""`troupe evaluate`: scripted teams by what they do, wrong orders by a clear line."""

import json
from dataclasses import replace
from statistics import fmean

import pytest
from typer.testing import CliRunner

from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.evaluation.scripted_play import make_scripted_answer
from components.identity import GroupKey
from components.metrics import payoffs
from components.schema import EvalReport
from flows.suites import suite_config
from tests.components.environments.bare import bare
from tests.components.tracking.reports import evaluation
from troupe.cli import app
from troupe.teams.evaluation import evaluate
from troupe.teams.reports import evaluation_document


def run_evaluate(subject: str, suite: str | None, **wanted: object) -> EvalReport:
    told: list[tuple[int, int]] = []
    values = {"num_problems": 30, "progress": lambda done, total: told.append((done, total)), **wanted}
    report = evaluate(subject, suite, **values)  # type: ignore[arg-type]
    assert told[-1] == (report.n, report.n)
    return report


@pytest.mark.parametrize("suite", ["plan_path", "sokoban/test", "sudoku/train"])
def test_the_expert_solves_every_game_and_nobody_else_does(suite: str) -> None:
    assert run_evaluate("expert", suite).success_rate == 1.0
    assert run_evaluate("noop", suite).success_rate == 0.0
    assert run_evaluate("random", suite).success_rate < 0.2


def test_in_a_game_the_sentence_tells_what_each_player_is_paid(monkeypatch: pytest.MonkeyPatch) -> None:
    paid = {f"eval/sample/{agent}/payoff": payoff for agent, payoff in (("ann", 0.5), ("bob", -0.5))}
    report = replace(evaluation(3), agent="ann=r@3,bob=r@0", metrics=paid)
    monkeypatch.setattr("troupe.teams.evaluation.evaluate", lambda *_, **__: report)
    told = CliRunner().invoke(app, ["evaluate", "ann=r,bob=r@0"], catch_exceptions=False).stdout
    assert "to 85.8%, an episode pays ann 0.500, bob -0.500\n" in told
    assert "mean reward" not in told


@pytest.mark.parametrize("script", ["random", "noop"])
def test_in_a_game_scripts_are_paid_as_runs_are(script: str) -> None:
    report = run_evaluate(script, "population-kuhn/test", num_problems=6)
    paid = payoffs(report.metrics)
    assert report.payoffs_P is not None
    assert paid == {player: fmean(earned_P) for player, earned_P in report.payoffs_P.items()}
    assert [*paid] == ["player_0", "player_1"]
    assert any(paid.values())
    assert sum(paid.values()) == pytest.approx(0), "Kuhn poker is a game of zero sum"
    assert (
        evaluation_document(report)["metrics"].items() >= {f"eval/scripted/{p}/payoff": paid[p] for p in paid}.items()
    )


def test_the_report_has_the_keys_and_the_interval_that_other_programs_read() -> None:
    report = json.loads(
        CliRunner()
        .invoke(
            app, ["evaluate", "expert", "--suite", "plan_path", "--problems", "60", "--json"], catch_exceptions=False
        )
        .stdout
    )
    assert {name: report[name] for name in ("suite", "agent", "success_rate", "n")} == {
        "suite": "plan_path/test",
        "agent": "expert",
        "success_rate": 1.0,
        "n": 60,
    }
    assert report["interval"] == [pytest.approx(0.9398, abs=1e-4), 1.0]
    assert report["mean_reward"] == pytest.approx(1.3)


def test_a_seed_chooses_the_problems_and_a_preset_brings_its_options() -> None:
    once, twice = (run_evaluate("random", "sudoku", seed=1, num_samples=2) for _ in range(2))
    assert replace(once, metrics={}) == replace(twice, metrics={})
    assert once.suite_digest != run_evaluate("random", "sudoku", seed=2).suite_digest
    config, suite = suite_config("plan-path-6x6/train_check", ["environment.max_turns=3"])
    assert (config.environment.options, config.environment.max_turns, suite) == ({"size": 6}, 3, "train_check")
    assert suite_config("plan_path")[0].environment.options == {}


@pytest.mark.parametrize(
    ("wanted", "told"),
    [
        (
            {"subject": "noop", "suite": "plan_path", "overrides": ("environment.options.sice=4",)},
            "did you mean 'size'",
        ),
        (
            {"subject": "noop", "suite": "plan_path", "overrides": ("training.learning_rate=1",)},
            "changes no evaluation",
        ),
        ({"subject": "noop", "suite": "plan_path", "num_samples": 0}, "num_samples 0: ask for at least 1"),
        ({"subject": "tool_agent=expert", "suite": "plan_path"}, "tool_agent cannot be 'expert'"),
        ({"subject": "tool_agent=a,tool_agent=b", "suite": "plan_path"}, "tool_agent is named twice"),
        ({"subject": "tool_agent=a,b", "suite": "plan_path"}, "'b' is no role with its subject"),
    ],
)
def test_a_wrong_order_is_a_line_that_names_what_is_wrong(wanted: dict[str, object], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        run_evaluate(**wanted)  # type: ignore[arg-type]


def test_an_unknown_suite_names_every_environment_and_preset_once() -> None:
    with pytest.raises(ConfigurationError) as raised:
        run_evaluate("expert", "chess")
    names = str(raised.value).partition("there are ")[2].split(", ")
    assert {"sokoban", "sudoku", "plan_path", "plan-path"} <= set(names)
    assert len(names) == len(set(names))


def test_a_team_without_an_expert_plays_at_random_and_idles_and_says_that_it_has_none() -> None:
    silent = bare(family("plan_path"))
    with pytest.raises(ConfigurationError, match="'plan_path' has no expert"):
        make_scripted_answer("expert", silent, 0)
    env = silent.build(silent.problem(family_options("plan_path", {}), split="test", index=0, seed=0))
    node = GroupKey(problem_id="p", episode=0, turn=0, agent="plan_agent")
    assert make_scripted_answer("noop", silent, 0)(env, node) == ""
    assert make_scripted_answer("random", silent, 0)(env, node) in "UDLR"
