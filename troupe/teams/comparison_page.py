"""A comparison as one HTML page that loads nothing: intervals, paired differences, and held-out success over training."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from components.errors import ConfigurationError
from troupe.runs.documents import run_document
from troupe.runs.stores import open_named_store
from troupe.teams.comparing import ComparisonReport, earnings, format_kept_and_spent, paid_agents
from troupe.teams.reports import describe_sampling

WIDTH, HEIGHT = 560, 220
"""Of the curves, in pixels."""
_BAR = 160
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")
Curve = Sequence[tuple[int, float]]
"""(step, held-out success) of a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """A curve as points of a polyline, and its color."""

    name: str
    color: str
    points: str
    last: float


def write_comparison(report: ComparisonReport, file: Path, *, store: str | None) -> None:
    """Write the page of a report to `file`. Raises ConfigurationError if that cannot be written."""
    page = comparison_page(report, run_curves(report, store))
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"--html {file}: {error.strerror}; name a file that can be written") from error


def run_curves(report: ComparisonReport, store: str | None) -> dict[str, list[tuple[int, float]]]:
    """The held-out success over training of each run that a report names, as its own evaluations have measured it."""
    subjects = (part.partition("=")[2] or part for each in report.reports for part in each.agent.split(","))
    runs = dict.fromkeys(name.partition("@")[0] for name in subjects if "@" in name)
    curves = {}
    for run in runs:
        evaluations = run_document(open_named_store(store, run), run)["evaluations"]
        sampling = evaluations[-1]["sampling"] if evaluations else None
        curves[run] = [(each["step"], each["success_rate"]) for each in evaluations if each["sampling"] == sampling]
    return curves


def comparison_page(report: ComparisonReport, curves: Mapping[str, Curve]) -> str:
    """The page of a report; `curves` holds the held-out success of the subjects that are runs, by run."""
    texts = Environment(loader=PackageLoader("troupe.teams", "."), undefined=StrictUndefined, autoescape=True)
    base, paid = report.reports[0], paid_agents(report.reports)
    return texts.get_template("comparison.html.jinja").render(
        title=f"{', '.join(each.agent for each in report.reports[1:])} against {base.agent}",
        suite=f"{base.suite} {base.suite_digest}",
        how=describe_sampling(next((each for each in report.reports if each.sampling != "scripted"), base)),
        report=report,
        paid=paid,
        rows=[(each, earnings(each, paid), format_kept_and_spent(each)) for each in report.reports],
        bar=_BAR,
        width=WIDTH,
        height=HEIGHT,
        lines=_lines(curves),
        last_step=max((step for curve in curves.values() for step, _ in curve), default=0),
    )


def _lines(curves: Mapping[str, Curve]) -> list[_Line]:
    last_step = max((step for curve in curves.values() for step, _ in curve), default=0) or 1
    return [
        _Line(
            name=name,
            color=_COLORS[number % len(_COLORS)],
            points=" ".join(f"{WIDTH * step / last_step:.1f},{HEIGHT * (1 - rate):.1f}" for step, rate in curve),
            last=curve[-1][1],
        )
        for number, (name, curve) in enumerate(curves.items())
        if curve
    ]
