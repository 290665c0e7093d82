"""What a night of evaluations says: success by subject, what changed since the night before, and who becomes the champion."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from pydantic import Field, TypeAdapter

from components.config.types import Name
from components.evaluation.comparison import PairedComparison, PayoffDifference, compare_pairs
from components.evaluation.promotion import (
    Contestant,
    Decision,
    PromotionConfig,
    PromotionState,
    after_night,
    run_named,
)
from components.evaluation.suites import Suite
from components.frozen import Settings
from components.identity import seed_for
from components.schema import EvalReport

_SEEDS = 2**31


class NightlySuite(Settings):
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
class ReturnChange:
    """What one member of a population earns more in a game with the others as they were: its newest weights less its earlier
    ones, on the same problems."""

    base: str
    other: str
    num_problems: int
    change: PayoffDifference


@dataclass(frozen=True, slots=True, kw_only=True)
class SuiteNight:
    """One suite's night. `failures` are subjects that could not be played, with the reason."""

    name: str
    night: str
    """The date, as 2026-11-25."""
    reports: tuple[EvalReport, ...]
    changes: tuple[PairedComparison, ...]
    """The newest checkpoint of each run against that of the last night on which another one played."""
    returns: tuple[ReturnChange, ...] = ()
    """The same by members, of populations whose games pay."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """The digest of the weights behind each report of a run, by its agent; none in records of earlier versions."""
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
    def losses(self) -> tuple[ReturnChange, ...]:
        """The members that earn less, the whole interval below 0, the largest loss first."""
        worse = (each for each in self.returns if each.change.interval[1] < 0)
        return tuple(sorted(worse, key=lambda each: each.change.difference))

    @property
    def num_compared(self) -> int:
        """The subjects that were compared with an earlier checkpoint."""
        return len({each.other for each in self.changes} | {each.other for each in self.returns})

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


def changes_since(
    reports: Sequence[EvalReport], nights: Sequence[SuiteNight], weights: Mapping[str, str] = MappingProxyType({})
) -> tuple[PairedComparison, ...]:
    """Each run's report against that of its last other weights in `nights`, the newest last, if both are a pair.

    `weights` are the digests of tonight's, by agent. **Example** tonight "r@200", last night "r@200" with equal weights, before
    it "r@100": "r@200" less "r@100". After a restart "r@200" with other weights is compared with "r@200 of 2026-11-28".
    """
    changes = []
    for report in reports:
        if not is_checkpoint(report.agent):
            continue
        found = last_other(report, nights, weights.get(report.agent))
        if found is not None and _are_pair(found[1], report):
            night, before = found
            compared = compare_pairs(before, report)
            named = before.agent if before.agent != report.agent else f"{before.agent} of {night.night}"
            changes.append(replace(compared, base=named))
    return tuple(changes)


def last_other(
    report: EvalReport, nights: Sequence[SuiteNight], weights: str | None
) -> tuple[SuiteNight, EvalReport] | None:
    """The run's newest earlier report of other weights, and its night.

    Where a digest is unknown, the names decide; and one name that played the same problems otherwise is of other weights, too,
    because play is kept by weights.
    """

    def is_other(night: SuiteNight, each: EvalReport) -> bool:
        known = night.weights.get(each.agent)
        if weights is not None and known is not None:
            return weights != known
        return each.agent != report.agent or (_are_pair(each, report) and each.num_solved_P != report.num_solved_P)

    return next(
        (
            (night, each)
            for night in reversed(nights)
            for each in night.reports
            if run_named(each.agent) == run_named(report.agent) and is_checkpoint(each.agent) and is_other(night, each)
        ),
        None,
    )


def promotion_after(
    rule: PromotionConfig,
    state: PromotionState,
    champion: EvalReport,
    challengers: Sequence[EvalReport],
    weights: Mapping[str, str] = MappingProxyType({}),
) -> tuple[PromotionState, tuple[Decision, ...]]:
    """The state after a night in which all of them played the same fresh problems; `weights` are the challengers' by agent."""
    played = [compare_pairs(champion, each) for each in challengers]
    draw = f"{champion.suite_digest}-{champion.seed}"
    return after_night(rule, state, played, draw=draw, weights=weights)


def is_checkpoint(agent: str) -> bool:
    """Whether a report is of a run's own team. **Example** "a@1" is one, "expert" and "plan_agent=a@1" are none."""
    return "@" in agent and "=" not in agent


def appoint_champion(reports: Sequence[EvalReport]) -> str | None:
    """The champion of a first night: the checkpoint of a run with the highest success, ties to the first; None without one."""
    runs = [each for each in reports if is_checkpoint(each.agent)]
    return max(runs, key=lambda each: each.success_rate).agent if runs else None


def _are_pair(one: EvalReport, other: EvalReport) -> bool:
    fields = ("suite_digest", "seed", "sampling", "num_samples")
    return all(getattr(one, name) == getattr(other, name) for name in fields)


def night_markdown(nights: Sequence[SuiteNight], unplayed: Sequence[str] = ()) -> str:
    """The report of a night over all suites: regressions first, then models by suite, then promotions, then `unplayed`, the
    active runs that no suite plays."""
    regressions = list(regression_lines(nights))
    lines = [f"# Nightly evaluation, {nights[0].night if nights else 'no suite'}", ""]
    verdict = verdict_sentence(nights)
    lines += [f"**{verdict}**" if regressions else verdict, "", *(f"- {each}" for each in regressions)]
    for night in (each for each in nights if not is_idle(each)):
        lines += ["", f"## {night.name}", "", *_table(night), ""]
        lines += [f"- {return_sentence(each)}" for each in night.returns]
        lines += [f"- {decision_sentence(each)}" for each in night.decisions]
        lines += [f"- {subject} was not played: {reason}" for subject, reason in night.failures.items()]
    closing = [each for each in (idle_sentence(nights), describe_unplayed(unplayed)) if each]
    return "\n".join([*lines, *(line for each in closing for line in ("", each))]) + "\n"


def verdict_sentence(nights: Sequence[SuiteNight]) -> str:
    """What the night says at its top. **Example** "3 of 11 subjects compared with an earlier checkpoint: no regression"."""
    num_compared = sum(night.num_compared for night in nights)
    num_subjects = sum(is_checkpoint(each.agent) for night in nights for each in night.reports)
    if not num_subjects:
        return "No run's checkpoint was played."
    counted = f"{num_compared} of {num_subjects} subjects compared with an earlier checkpoint"
    if not num_compared:
        return f"{counted}: nothing to say about regressions"
    count = len(list(regression_lines(nights)))
    return f"{counted}: {count or 'no'} regression{'s' * (count > 1)}"


def regression_lines(nights: Sequence[SuiteNight]) -> Iterator[str]:
    """A line for each checkpoint that is worse, and for each member that earns less."""
    for night in nights:
        yield from (f"{night.name}: {change_sentence(each)}" for each in night.regressions)
        yield from (f"{night.name}: {return_sentence(each)}" for each in night.losses)


def describe_unplayed(unplayed: Sequence[str]) -> str:
    """**Example** "Active, and played by no suite: own (environment guess)."; empty without any."""
    return f"Active, and played by no suite: {', '.join(unplayed)}." if unplayed else ""


def is_champion(night: SuiteNight, report: EvalReport) -> bool:
    """Whether the report is of the champion's weights."""
    if night.after is None or run_named(report.agent) != run_named(night.after.champion):
        return False
    return Contestant(name=report.agent, weights=night.weights.get(report.agent)).is_same(night.after.holder)


def is_idle(night: SuiteNight) -> bool:
    """Whether nobody was to play."""
    return not (night.reports or night.failures or night.decisions)


def idle_sentence(nights: Sequence[SuiteNight]) -> str:
    """The suites that nobody was to play; empty if there is none. **Example** "Nobody played sokoban: no run was active."."""
    names = [night.name for night in nights if is_idle(night)]
    return f"Nobody played {', '.join(names)}: no run was active." if names else ""


def list_played_suites(night: SuiteNight) -> str:
    """What was played, and how. **Example** "plan_path/test 571fed90aea5, sample"."""
    return "; ".join(dict.fromkeys(f"{each.suite} {each.suite_digest}, {each.sampling}" for each in night.reports))


def _table(night: SuiteNight) -> list[str]:
    if not night.reports:
        return []
    head = ["| subject | success | 95% interval | n | since the last |", "|---|---|---|---|---|"]
    return [list_played_suites(night), "", *head, *(_line(night, each) for each in by_success(night))]


def by_success(night: SuiteNight) -> list[EvalReport]:
    """The night's reports, the best first."""
    return sorted(night.reports, key=lambda each: -each.success_rate)


def _line(night: SuiteNight, report: EvalReport) -> str:
    change = next((each for each in night.changes if each.other == report.agent), None)
    since = ""
    if change is not None:
        since = f"{change.difference:+.3f} ({change.interval[0]:+.3f} to {change.interval[1]:+.3f})"
    low, high = report.interval
    subject = f"{report.agent} (champion)" if is_champion(night, report) else report.agent
    return f"| {subject} | {report.success_rate:.3f} | {low:.3f} to {high:.3f} | {report.n} | {since} |"


def change_sentence(change: PairedComparison) -> str:
    """**Example** "r@200 less r@100: -0.140, 95% interval -0.210 to -0.071, n 500"."""
    low, high = change.interval
    return (
        f"{change.other} less {change.base}: {change.difference:+.3f}, 95% interval {low:+.3f} to {high:+.3f}, "
        f"n {change.num_problems}"
    )


def return_sentence(each: ReturnChange) -> str:
    """**Example** "first of r@200 less r@100: return -0.140, 95% interval -0.210 to -0.071, n 500"."""
    low, high = each.change.interval
    return (
        f"{each.change.agent} of {each.other} less {each.base}: return {each.change.difference:+.3f}, "
        f"95% interval {low:+.3f} to {high:+.3f}, n {each.num_problems}"
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
            "champion": is_champion(night, report),
            "digest": report.suite_digest,
        }
        for report in night.reports
    ]
