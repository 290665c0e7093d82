"""A night's report: what changed, who is promoted, and how it is shown."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.evaluation.nightly import (
    NightlySuite,
    PromotionConfig,
    SuiteNight,
    appointed,
    changes_since,
    night_document,
    night_from,
    night_markdown,
    promotion_after,
)
from components.evaluation.nightly_page import night_page
from components.evaluation.promotion import PromotionRule, PromotionState
from components.evaluation.suites import Suite
from components.schema import EvalReport
from flows.presets import preset_config
from tests.components.tracking.reports import evaluation

SUITE = Suite(environment=preset_config("tiny").environment, num_problems=200)


def report(agent: str, num_solved: int, *, n: int = 200, **values: Any) -> EvalReport:
    """The first `num_solved` of `n` problems are solved."""
    rate, solved_P = num_solved / n, (1,) * num_solved + (0,) * (n - num_solved)
    return replace(
        evaluation(0), agent=agent, n=n, num_successes=num_solved, num_solved_P=solved_P, success_rate=rate, **values
    )


def night(date: str, *reports: EvalReport, **values: Any) -> SuiteNight:
    return SuiteNight(name="plan-path", night=date, reports=reports, changes=(), failures={}, **values)


def test_a_run_is_compared_with_its_last_other_checkpoint() -> None:
    earlier = [
        night("2026-11-22", report("a@1", 100), report("b@1", 90)),
        night("2026-11-23", report("a@2", 120), report("b@1", 90)),
    ]
    tonight = [report("a@2", 120), report("b@2", 80), report("c@1", 3), report("expert", 200)]
    changes = changes_since(tonight, earlier)
    assert [(each.base, each.other) for each in changes] == [("a@1", "a@2"), ("b@1", "b@2")]
    assert [each.difference for each in changes] == pytest.approx([0.1, -0.05])
    regressions = replace(night("2026-11-24", *tonight), changes=changes).regressions
    assert [each.other for each in regressions] == ["b@2"]
    other_suite = [night("2026-11-23", report("b@1", 90, suite_digest="other"))]
    assert changes_since(tonight, other_suite) == ()


def test_a_promotion_is_by_the_rule_on_fresh_problems() -> None:
    rule = PromotionRule(max_challengers=10, min_problems=100)
    state = PromotionState(champion="a@1")
    fresh = [report("a@1", 100), report("b@1", 150), report("c@1", 90)]
    after, decisions = promotion_after(rule, state, fresh)
    assert (after.champion, [each.outcome for each in decisions]) == ("b@1", ["promoted"])
    few = [report("a@1", 10, n=20), report("b@1", 15, n=20)]
    after, decisions = promotion_after(rule, state, few)
    assert (after.champion, [each.outcome for each in decisions]) == ("a@1", ["open"])
    again, decisions = promotion_after(rule, after, few)
    assert [each.outcome for each in decisions] == ["repeated"], "the same problems are no new evidence"
    assert again.trials == after.trials


def test_the_first_champion_is_the_best_run_and_no_script() -> None:
    assert appointed([report("expert", 200), report("a@1", 3), report("b@1", 9), report("c@1", 9)]) == "b@1"
    assert appointed([report("expert", 200), report("tool_agent=a@1,plan_agent=b@1", 9)]) is None


@given(st.lists(st.dates(), min_size=2, max_size=20, unique=True))
def test_nights_have_different_problems_and_a_night_its_own(dates: list[Any]) -> None:
    nightly = NightlySuite(name="n", suite=SUITE)
    promotion = PromotionConfig(num_problems=7)
    suites = [nightly.fresh_suite(each.isoformat(), promotion) for each in dates]
    assert len({suite.seed for suite in suites}) == len(dates)
    assert suites == [nightly.fresh_suite(each.isoformat(), promotion) for each in dates]
    assert {suite.num_problems for suite in suites} == {7}


def test_a_night_survives_its_record_and_is_shown_with_regressions_first() -> None:
    earlier = [night("2026-11-23", report("a@1", 150), report("<b>@1", 20))]
    reports = (report("a@2", 100), report("<b>@1", 20))
    state, decisions = promotion_after(PromotionRule(), PromotionState(champion="a@2"), reports)
    tonight = replace(
        night("2026-11-24", *reports, decisions=decisions, before=None, after=state),
        changes=changes_since(reports, earlier),
        failures={"c@9": "ArtifactMissing: gone"},
    )
    assert night_from(night_document(tonight)) == tonight
    page, text = night_page([tonight]), night_markdown([tonight])
    assert "1 regression<" in page
    assert page.index("1 regression") < page.index("<table>")
    assert text.index("**1 regression**") < text.index("| subject |")
    assert text.index("a@2 less a@1: -0.250") < text.index("| subject |")
    assert "&lt;b&gt;@1" in page
    assert "<b>@1" not in page
    assert "a@2 (champion) | 0.500" in text
    assert "c@9 was not played: ArtifactMissing: gone" in text
    assert "c@9 was not played: ArtifactMissing: gone" in page
    assert f"{reports[0].suite} {reports[0].suite_digest}, {reports[0].sampling}" in text
    assert f"{reports[0].suite} {reports[0].suite_digest}, {reports[0].sampling}" in page
    idle = [night("2026-11-24"), replace(night("2026-11-24"), name="other")]
    for shown in (night_page(idle), night_markdown(idle)):
        assert f"Nobody played {idle[0].name}, other: no run was active." in shown
        assert "subject" not in shown
