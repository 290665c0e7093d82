"""A night's report: what changed, who is promoted, and how it is shown."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.evaluation.comparison import PayoffDifference
from components.evaluation.nightly import (
    NightlySuite,
    ReturnChange,
    SuiteNight,
    appoint_champion,
    changes_since,
    night_document,
    night_from,
    night_markdown,
    promotion_after,
    regression_lines,
    row_documents,
    verdict_sentence,
)
from components.evaluation.nightly_page import night_page
from components.evaluation.promotion import PromotionConfig, PromotionState
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
    verdict = verdict_sentence([replace(night("2026-11-24", *tonight), changes=changes)])
    assert verdict == "2 of 3 subjects compared with an earlier checkpoint: 1 regression"
    other_suite = [night("2026-11-23", report("b@1", 90, suite_digest="other"))]
    assert changes_since(tonight, other_suite) == ()


def test_a_promotion_is_by_the_rule_on_fresh_problems() -> None:
    rule = PromotionConfig(min_problems=100)
    state = PromotionState(champion="a@1")
    fresh = [report("b@1", 150), report("c@1", 90)]
    after, decisions = promotion_after(rule, state, report("a@1", 100), fresh, {"b@1": "w"})
    assert (after.champion, after.champion_weights) == ("b@1", "w")
    assert [each.outcome for each in decisions] == ["promoted"]
    few = [report("b@1", 15, n=20)]
    after, decisions = promotion_after(rule, state, report("a@1", 10, n=20), few)
    assert (after.champion, [each.outcome for each in decisions]) == ("a@1", ["open"])
    again, decisions = promotion_after(rule, after, report("a@1", 10, n=20), few)
    assert [each.outcome for each in decisions] == ["repeated"], "the same problems are no new evidence"
    assert again.trials == after.trials


def test_the_first_champion_is_the_best_run_and_no_script() -> None:
    assert appoint_champion([report("expert", 200), report("a@1", 3), report("b@1", 9), report("c@1", 9)]) == "b@1"
    assert appoint_champion([report("expert", 200), report("tool_agent=a@1,plan_agent=b@1", 9)]) is None


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
    state, decisions = promotion_after(PromotionConfig(), PromotionState(champion="a@2"), reports[0], reports[1:])
    tonight = replace(
        night("2026-11-24", *reports, decisions=decisions, before=None, after=state),
        changes=changes_since(reports, earlier),
        failures={"c@9": "ArtifactMissing: gone"},
    )
    assert night_from(night_document(tonight)) == tonight
    unplayed = ["<own> (environment guess)"]
    page, text = night_page([tonight], unplayed), night_markdown([tonight], unplayed)
    verdict = "1 of 2 subjects compared with an earlier checkpoint: 1 regression"
    assert page.index(f'<h2 class="bad">{verdict}<') < page.index("<table>")
    assert text.index(f"**{verdict}**") < text.index("| subject |")
    assert "Active, and played by no suite: <own> (environment guess)." in text
    assert "Active, and played by no suite: &lt;own&gt; (environment guess)." in page
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


def test_another_digest_under_one_name_is_another_checkpoint() -> None:
    good, ruined = report("r@1", 140), report("r@1", 0)
    before = night("2026-11-29", good, weights={"r@1": "w1"})
    (change,) = changes_since([ruined], [before], {"r@1": "w2"})
    assert (change.base, change.other, change.difference) == ("r@1 of 2026-11-29", "r@1", -0.7)
    assert changes_since([good], [before], {"r@1": "w1"}) == ()
    later = night("2026-11-30", ruined, weights={"r@1": "w2"})
    assert changes_since([ruined], [before, later], {"r@1": "w2"}) == (change,), "of the last other weights"
    assert changes_since([report("r@2", 140)], [before], {"r@2": "w1"}) == (), "a step that changed no weights"
    unknown = replace(before, weights={})
    assert len(changes_since([ruined], [unknown], {"r@1": "w2"})) == 1, "equal weights play equally"
    assert changes_since([good], [unknown], {"r@1": "w1"}) == ()


@pytest.mark.parametrize(
    ("weights", "champion", "marked"),
    [
        ({"r@1": "w1"}, PromotionState(champion="r@1", champion_weights="w1"), ["r@1"]),
        ({"r@1": "w2", "r@1 (w1)": "w1"}, PromotionState(champion="r@1", champion_weights="w1"), ["r@1 (w1)"]),
        ({"r@1": "w2"}, PromotionState(champion="r@1", champion_weights="w1"), []),
        ({"s@1": "w1"}, PromotionState(champion="r@1", champion_weights="w1"), []),
        ({}, PromotionState(champion="r@1"), ["r@1"]),
    ],
)
def test_the_champion_is_marked_by_its_weights(
    weights: dict[str, str], champion: PromotionState, marked: list[str]
) -> None:
    reports = [report(agent, 100) for agent in weights or ("r@1",)]
    shown = night("2026-11-24", *reports, weights=weights, after=champion)
    assert [row["subject"] for row in row_documents(shown) if row["champion"]] == marked
    assert night_page([shown]).count("<strong>champion") == night_markdown([shown]).count("(champion)") == len(marked)


def test_nothing_is_green_where_nothing_was_compared() -> None:
    first = night("2026-11-24", report("a@1", 100), report("expert", 200))
    assert verdict_sentence([first]).startswith("0 of 1 subjects compared with an earlier checkpoint: nothing")
    assert 'class="good"' not in night_page([first])
    second = replace(first, changes=changes_since(first.reports, [night("2026-11-23", report("a@0", 100))]))
    verdict = "1 of 1 subjects compared with an earlier checkpoint: no regression"
    assert verdict in night_markdown([second])
    assert f'<p class="good">{verdict}<' in night_page([second])


def test_a_member_that_earns_less_is_a_regression() -> None:
    change = PayoffDifference(agent="first", difference=-0.25, interval=(-0.4, -0.1))
    lost = ReturnChange(base="k@1", other="k@2", num_problems=200, change=change)
    shown = night("2026-11-24", report("k@2", 100), returns=(lost,))
    line = "first of k@2 less k@1: return -0.250, 95% interval -0.400 to -0.100, n 200"
    assert list(regression_lines([shown])) == [f"plan-path: {line}"]
    assert night_page([shown]).count(line) == night_markdown([shown]).count(line) == 2
    assert night_from(night_document(shown)) == shown


def test_a_night_of_an_earlier_version_is_read() -> None:
    decided = {"challenger": "b@1", "outcome": "waiting", "evidence": 1.5, "needed_evidence": 2000.0}
    after = {"champion": "a@1", "night": 3, "num_challengers": 2, "trials": [{"challenger": "b@1", "draws": ["0"]}]}
    document = {**night_document(night("2026-11-24", report("a@1", 100))), "decisions": [decided], "after": after}
    del document["weights"], document["returns"]
    found = night_from(document)
    assert (found.weights, found.after and found.after.champion_weights, found.changes) == ({}, None, ())
