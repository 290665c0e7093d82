"""`troupe play`, `troupe evaluate` and the checks of a run, for teams of every shape."""

import io
from pathlib import Path
from typing import Any

import pytest

from components.errors import ConfigurationError
from components.session.scenario import scenario_of
from flows.preflight.checks import check_environment
from tests.sections import make_config
from troupe.teams.evaluation import evaluate
from troupe.teams.play import play
from troupe.teams.reports import PlayReport

NAME = "tests.components.rollout.own_teams"


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(__file__).resolve().parents[3])


def run_play(environment: str, *, typed: str = "", **wanted: Any) -> tuple[PlayReport, str]:
    stdout = io.StringIO()
    arguments = {
        "environment": f"{NAME}:{environment}", "agent": "expert", "episodes": 1, "seed": 0, "options": {},
        "split": "test", "max_turns": 1, "sampling": None, "store": "file:///nowhere/at/all", **wanted,
    }  # fmt: skip
    return play(**arguments, stdin=io.StringIO(typed), stdout=stdout), stdout.getvalue()


def list_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("turn ", "after "))]


def test_those_side_by_side_are_shown_one_after_another_and_the_end_ends_it() -> None:
    report, text = run_play("Votes")
    assert list_lines(text) == ["turn 1, ann: 6", "turn 1, bob: 6", "turn 1, judge: 6", "after turn 1, solved"]
    assert (report.success_rate, report.mean_reward) == (1.0, 1.0)
    report, text = run_play("Race", max_turns=3)
    assert list_lines(text) == ["turn 1, ann: 6", "after turn 1, solved"], "Bob answered beside her and is not entered"
    assert report.mean_reward == 2.0


def test_a_team_that_branches_is_followed() -> None:
    report, text = run_play("Desk", max_turns=4)
    answers = [line.split() for line in list_lines(text) if line.startswith("turn")]
    side = answers[0][3]
    assert [answer[2] for answer in answers] == ["router:", f"{side}:", "checker:"]
    assert (report.success_rate, report.mean_reward) == (1.0, 2.0)
    report, _ = run_play("Desk", max_turns=2)
    assert (report.success_rate, report.mean_reward) == (0.0, 1.0), "the reward of the clerk, who acted last"


def test_a_person_answers_for_those_side_by_side_before_any_answer_counts() -> None:
    report, text = run_play("Votes", agent="human", typed="5\n.\n6\n.\n6\n.\n")
    assert report.success_rate == 1.0
    before_the_judge = text[: text.index("judge>")]
    assert before_the_judge.count("ann sees []") == 2, "the picture has not changed between ann and bob"
    assert "ann sees ['5', '6']" in before_the_judge


def test_a_team_that_branches_has_as_many_answers_as_others_have_in_their_turns() -> None:
    _, text = run_play("Desk", agent="noop", max_turns=None)
    assert len([line for line in list_lines(text) if line.startswith("turn")]) == 4 * 4


@pytest.mark.parametrize(("environment", "rate"), [("Votes", 1.0), ("Race", 1.0), ("Desk", 1.0)])
def test_scripted_teams_are_evaluated(environment: str, rate: float) -> None:
    report = evaluate("expert", f"{NAME}:{environment}", num_problems=6, sampling="sample")
    assert (report.success_rate, report.n) == (rate, 6)


def run_config(environment: str, *agents: str, **section: Any) -> Any:
    return make_config({"name": environment, **section}, *agents)


def test_the_agents_that_act_must_be_played() -> None:
    votes, desk = f"{NAME}:Votes", f"{NAME}:Desk"
    check_environment(scenario_of(run_config(votes, "ann", "bob", "judge")))
    check_environment(scenario_of(run_config(votes, "ann", "judge", turn_order=["ann", "judge", "ann"])))
    with pytest.raises(ConfigurationError, match=r"is played by \['ann', 'bob', 'judge'\]"):
        check_environment(scenario_of(run_config(votes, "ann", "judge")))
    check_environment(scenario_of(run_config(desk, "router", "left", "right", "checker")))
    with pytest.raises(ConfigurationError, match=r"is played by \['checker', 'left', 'right', 'router'\]"):
        check_environment(scenario_of(run_config(desk, "router", "left", "checker")))
    with pytest.raises(ConfigurationError, match=r"'bobb' is no role of .*:Votes; did you mean 'bob'\?"):
        check_environment(scenario_of(run_config(votes, "ann", "bob", "judge", turn_order=[["ann", "bobb"], "judge"])))
    with pytest.raises(ConfigurationError, match="leave turn_order out"):
        check_environment(scenario_of(run_config(desk, "router", "left", "right", "checker", turn_order=["router"])))
