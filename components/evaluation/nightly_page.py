"""A night's report as one HTML page that loads nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined

from components.evaluation.comparison import PairedComparison
from components.evaluation.nightly import (
    SuiteNight,
    by_success,
    decision_sentence,
    describe_unplayed,
    idle_sentence,
    is_champion,
    is_idle,
    list_played_suites,
    regression_lines,
    return_sentence,
    verdict_sentence,
)
from components.schema import EvalReport

_WIDTH = 240
"""Of the picture of an interval, in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A subject's line: its report, the picture of its interval in pixels, and its change."""

    report: EvalReport
    low: float
    at: float
    high: float
    is_champion: bool
    change: PairedComparison | None


def night_page(nights: Sequence[SuiteNight], unplayed: Sequence[str] = ()) -> str:
    """The page: regressions first, then a table for each suite with intervals as pictures, best first, then promotions, then
    the active runs that no suite plays."""
    texts = Environment(loader=PackageLoader("components.evaluation", "."), undefined=StrictUndefined, autoescape=True)
    return texts.get_template("nightly.html.jinja").render(
        night=nights[0].night if nights else "",
        width=_WIDTH,
        verdict=verdict_sentence(nights),
        is_compared=any(night.num_compared for night in nights),
        regressions=list(regression_lines(nights)),
        suites=[
            {
                "name": night.name,
                "played": list_played_suites(night),
                "rows": _rows(night),
                "returns": [(return_sentence(each), each.change.interval) for each in night.returns],
                "decisions": [decision_sentence(each) for each in night.decisions],
                "failures": night.failures,
            }
            for night in nights
            if not is_idle(night)
        ],
        closing=[each for each in (idle_sentence(nights), describe_unplayed(unplayed)) if each],
    )


def _rows(night: SuiteNight) -> list[_Row]:
    changes = {each.other: each for each in night.changes}
    return [
        _Row(
            report=report,
            low=report.interval[0] * _WIDTH,
            at=report.success_rate * _WIDTH,
            high=report.interval[1] * _WIDTH,
            is_champion=is_champion(night, report),
            change=changes.get(report.agent),
        )
        for report in by_success(night)
    ]
