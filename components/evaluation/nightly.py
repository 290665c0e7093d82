"""What a night of evaluations says: success by subject, what changed since the night before, and who becomes the champion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, TypeAdapter

from components.config.types import Name
from components.evaluation.comparison import PairedComparison, compare_pairs
from components.evaluation.promotion import Decision, PromotionRule, PromotionState, after_night
from components.evaluation.suites import Suite
from components.frozen import Frozen
from components.identity import seed_for
from components.schema import EvalReport

_SEEDS = 2**31


class PromotionConfig(Frozen):
    """The rule by which a challenger becomes the champion: see `components.evaluation.promotion`."""

    num_problems: int = Field(200, ge=1)
    """Fresh problems that champion and challengers play each night."""
    period_nights: int = Field(365, ge=1)
    false_promotion_rate: float = Field(0.05, gt=0.0, lt=1.0)
    """The largest probability of one or more false promotions in a period."""
    max_challengers: int = Field(100, ge=1)
    """The budget of a period: more challengers need more evidence each."""
    min_problems: int = Field(200, ge=1)
    """Fresh problems that a challenger plays before it can be promoted."""
    max_nights: int = Field(30, ge=1)
    """After which a challenger is given up."""

    @property
    def rule(self) -> PromotionRule:
        """The rule with these numbers."""
        return PromotionRule(**self.model_dump(exclude={"num_problems"}))


class NightlySuite(Frozen):
    """A suite that is played every night, and by whom."""

    name: Name
    """Under which its nights are kept."""
    suite: Suite
    sampling: str = Field("sample", pattern="^(sample|greedy)$")
    num_samples: int = Field(1, ge=1)
    subjects: tuple[str, ...] = ()
    """Subjects of every night, as `troupe evaluate` names them."""
    presets: tuple[Name, ...] | None = None
    """The newest checkpoint of each active run of these presets plays too; None: of each active run of its environment."""
    champion: str | None = None
    """RUN@STEP that is champion on the first night; None: the run with the highest success of that night."""

    def fresh_suite(self, night: str, promotion: PromotionConfig) -> Suite:
        """The fresh problems of a night, for champion and challengers. Nights have different seeds."""
        seed = seed_for(self.suite.seed, "night", night) % _SEEDS
        return self.suite.model_copy(update={"seed": seed, "num_problems": promotion.num_problems})


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteNight:
    """One suite's night. `failures` are subjects that could not be played, with the reason."""

    name: str
    night: str
    """The date, as 2026-11-25."""
    reports: tuple[EvalReport, ...]
    changes: tuple[PairedComparison, ...]
    """The newest checkpoint of each run against that of the last night on which another one played."""
    decisions: tuple[Decision, ...] = ()
    before: PromotionState | None = None
    """None on the first night."""
    after: PromotionState | None = None
    """None without a run."""
    failures: Mapping[str, str]

    @property
    def regressions(self) -> tuple[PairedComparison, ...]:
        """The changes whose whole interval is below 0, the largest loss first."""
        return tuple(sorted((each for each in self.changes if each.interval[1] < 0), key=lambda each: each.difference))

    @property
    def promoted(self) -> str | None:
        """The challenger that has become the champion."""
        return next((each.challenger for each in self.decisions if each.outcome == "promoted"), None)


_NIGHT = TypeAdapter(SuiteNight)


def night_document(night: SuiteNight) -> dict[str, Any]:
    """The night as plain JSON, which `night_from` reads."""
    return _NIGHT.dump_python(night, mode="json")  # type: ignore[no-any-return]


def night_from(document: Mapping[str, Any]) -> SuiteNight:
    """The night in a document. Raises pydantic's ValidationError."""
    return _NIGHT.validate_python(document)


def line_of_run(subject: str) -> str:
    """The run of a subject. **Example** "plan-path@100" is of "plan-path"."""
    return subject.partition("@")[0]


def changes_since(reports: Sequence[EvalReport], nights: Sequence[SuiteNight]) -> tuple[PairedComparison, ...]:
    """Each run's report against that of its last other checkpoint in `nights`, the newest last, if both are a pair.

    **Example** tonight "r@200", last night "r@200", before it "r@100": "r@200" less "r@100".
    """
    changes = []
    for report in reports:
        if "@" not in report.agent or "=" in report.agent:
            continue
        earlier = (
            each
            for night in reversed(nights)
            for each in night.reports
            if line_of_run(each.agent) == line_of_run(report.agent) and each.agent != report.agent
        )
        before = next(earlier, None)
        if before is not None and _are_pair(before, report):
            changes.append(compare_pairs(before, report))
    return tuple(changes)


def promotion_after(
    rule: PromotionRule, state: PromotionState, fresh: Sequence[EvalReport]
) -> tuple[PromotionState, tuple[Decision, ...]]:
    """The state after a night in which `fresh` were played on the same fresh problems, the champion among them."""
    champion = next(each for each in fresh if each.agent == state.champion)
    played = [compare_pairs(champion, each) for each in fresh if each.agent != state.champion]
    return after_night(rule, state, played, draw=f"{champion.suite_digest}-{champion.seed}")


def appointed(reports: Sequence[EvalReport]) -> str | None:
    """The champion of a first night: the checkpoint of a run with the highest success, ties to the first; None without one."""
    runs = [each for each in reports if "@" in each.agent and "=" not in each.agent]
    return max(runs, key=lambda each: each.success_rate).agent if runs else None


def _are_pair(one: EvalReport, other: EvalReport) -> bool:
    fields = ("suite_digest", "seed", "sampling", "num_samples")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def night_markdown(nights: Sequence[SuiteNight]) -> str:
    """The report of a night over all suites: regressions first, then models by suite, then promotions."""
    regressions = [(night, each) for night in nights for each in night.regressions]
    lines = [f"# Nightly evaluation, {nights[0].night if nights else 'no suite'}", ""]
    counted = f"{len(regressions)} regression{'s' * (len(regressions) > 1)}"
    lines += [f"**{counted}**" if regressions else "No regression.", ""]
    lines += [f"- {night.name}: {change_sentence(each)}" for night, each in regressions]
    for night in (each for each in nights if not is_idle(each)):
        lines += ["", f"## {night.name}", "", *_table(night), ""]
        lines += [f"- {decision_sentence(each)}" for each in night.decisions]
        lines += [f"- {subject} was not played: {reason}" for subject, reason in night.failures.items()]
    idle = idle_sentence(nights)
    return "\n".join([*lines, *(["", idle] if idle else [])]) + "\n"


def is_idle(night: SuiteNight) -> bool:
    """Whether nobody was to play."""
    return not (night.reports or night.failures or night.decisions)


def idle_sentence(nights: Sequence[SuiteNight]) -> str:
    """The suites that nobody was to play; empty if there is none. **Example** "Nobody played sokoban: no run was active."."""
    names = [night.name for night in nights if is_idle(night)]
    return f"Nobody played {', '.join(names)}: no run was active." if names else ""


def played_suites(night: SuiteNight) -> str:
    """What was played, and how. **Example** "plan_path/test 571fed90aea5, sample"."""
    return "; ".join(dict.fromkeys(f"{each.suite} {each.suite_digest}, {each.sampling}" for each in night.reports))


def _table(night: SuiteNight) -> list[str]:
    if not night.reports:
        return []
    head = ["| subject | success | 95% interval | n | since the last |", "|---|---|---|---|---|"]
    return [played_suites(night), "", *head, *(_line(night, each) for each in by_success(night))]


def by_success(night: SuiteNight) -> list[EvalReport]:
    """The night's reports, the best first."""
    return sorted(night.reports, key=lambda each: -each.success_rate)


def _line(night: SuiteNight, report: EvalReport) -> str:
    change = next((each for each in night.changes if each.other == report.agent), None)
    since = ""
    if change is not None:
        since = f"{change.difference:+.3f} ({change.interval[0]:+.3f} to {change.interval[1]:+.3f})"
    low, high = report.interval
    subject = f"{report.agent} (champion)" if night.after and night.after.champion == report.agent else report.agent
    return f"| {subject} | {report.success_rate:.3f} | {low:.3f} to {high:.3f} | {report.n} | {since} |"


def change_sentence(change: PairedComparison) -> str:
    """**Example** "r@200 less r@100: -0.140, 95% interval -0.210 to -0.071, n 500"."""
    low, high = change.interval
    return (
        f"{change.other} less {change.base}: {change.difference:+.3f}, 95% interval {low:+.3f} to {high:+.3f}, "
        f"n {change.num_problems}"
    )


def decision_sentence(decision: Decision) -> str:
    """**Example** "r@200: open, evidence 12.4 of 2000"."""
    return (
        f"{decision.challenger}: {decision.outcome}, evidence {decision.evidence:.3g} of {decision.needed_evidence:.0f}"
    )


def row_documents(night: SuiteNight) -> list[dict[str, Any]]:
    """A row for each subject, for tables."""
    return [
        {
            "suite": night.name,
            "subject": report.agent,
            "success": report.success_rate,
            "low": report.interval[0],
            "high": report.interval[1],
            "n": report.n,
            "champion": bool(night.after and night.after.champion == report.agent),
            "digest": report.suite_digest,
        }
        for report in night.reports
    ]
