"""Evaluates champion and challengers every night, reports what changed, and promotes by a rule."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

from prefect import runtime
from prefect.artifacts import create_markdown_artifact, create_table_artifact

from components.artifacts.base import ArtifactStore
from components.config import ResourceConfig, StoreConfig, TrackingConfig
from components.errors import NightFailed, TroupeError
from components.evaluation.night_records import keep_night, read_nights
from components.evaluation.nightly import (
    NightlySuite,
    SuiteNight,
    appoint_champion,
    changes_since,
    night_markdown,
    promotion_after,
    regression_lines,
    row_documents,
)
from components.evaluation.nightly_page import night_page
from components.evaluation.promotion import (
    Contestant,
    Decision,
    PromotionConfig,
    PromotionState,
    crown,
    select_challengers,
)
from components.evaluation.suites import Suite
from components.methods.open_subjects import ResultsStore
from components.runs.run import Run
from components.schema import EvalReport
from components.session.stores import open_store
from components.session.trackers import name_champion, tracking_url
from flows.evaluate import evaluate_subject
from flows.nightly_runs import (
    active_runs,
    different,
    find_contestant,
    find_exact_run,
    is_there,
    list_unplayed_runs,
    newest_checkpoints,
    run_nights,
)
from flows.prefect_runtime.interruptible_flow import interruptible_flow
from flows.prefect_runtime.retrying_transport import retry_prefect_outages
from flows.shards import play_in_flow

_log = logging.getLogger(__name__)


def run_name() -> str:
    """The flow run's name in Prefect: the night."""
    return f"night of {_night(runtime.flow_run.parameters.get('night'))}"


@interruptible_flow(name="nightly-evaluation", flow_run_name=run_name)
def nightly_evaluation(
    suites: list[NightlySuite],
    night: date | None = None,
    active_days: int = 7,
    promotion: PromotionConfig | None = None,
    store: StoreConfig | None = None,
    pages: str | None = None,
) -> dict[str, Any]:
    """Evaluate all subjects of all suites, and all active populations and players of games by their own evaluations; return
    what changed.

    `night`: None is the date for which the run was scheduled, so that a run that comes late, or again, plays the same problems.
    `active_days`: runs whose last session began earlier do not play, unless their checkpoint has an open trial. `pages`: a
    folder for the report as HTML. Raises NightFailed after everything is reported, if a run's newest checkpoint is worse than
    its last, or if a subject could not be played.
    """
    retry_prefect_outages(ResourceConfig().prefect_patience_seconds)
    tonight, kept = _night(night), store or StoreConfig()
    opened, rule = open_store(kept), promotion or PromotionConfig()
    active = list(active_runs(opened, date.fromisoformat(tonight), active_days))
    nights = [suite_night(each, tonight, opened, kept, rule, active) for each in suites]
    nights += run_nights(opened, kept, tonight, active)
    records = [keep_night(opened, each) for each in nights]
    report_nights(nights, list(list_unplayed_runs(opened, active, nights)), Path(pages) if pages else None)
    mark_champions(nights)
    if regressions := list(regression_lines(nights)):
        raise NightFailed("; ".join(regressions))
    failures = {f"{each.name}, {subject}": why for each in nights for subject, why in each.failures.items()}
    if failures:
        raise NightFailed("not played: " + "; ".join(f"{who}: {why}" for who, why in failures.items()))
    return {"night": tonight, "records": records, "promoted": {each.name: each.promoted for each in nights}}


def suite_night(
    nightly: NightlySuite,
    tonight: str,
    store: ArtifactStore,
    kept: StoreConfig,
    promotion: PromotionConfig,
    active: Sequence[Run],
) -> SuiteNight:
    """The night of one suite. A subject that cannot be played ends no other."""
    earlier = read_nights(store, nightly.name, before=tonight)
    before = next((each.after for each in reversed(earlier) if each.after is not None), None)
    failures: dict[str, str] = {}
    play = partial(_play, nightly, kept, failures)
    newest = list(newest_checkpoints(store, nightly, active))
    holder = _find_champion(nightly, before, kept, failures)
    named = [each for each in (_resolve(kept, name, failures) for name in nightly.subjects) if each is not None]
    listed = different([*newest, *([holder] if holder else []), *named])
    found = play(listed, nightly.suite, 0)
    champion = holder or _appoint(newest, found)
    after, decisions = before, tuple[Decision, ...]()
    if champion is not None:
        state = before or PromotionState(champion=champion.name)
        if holder is None:
            state = crown(state, champion)
        else:  # its digest, which records of earlier versions lack
            state = replace(state, champion=champion.name, champion_weights=champion.weights)
        after, decisions = _decide(nightly, tonight, promotion, state, newest, kept, play)
    reports = label_reports(found)
    weights = {report.agent: each.weights for each, report in reports.items() if each.weights is not None}
    return SuiteNight(
        name=nightly.name,
        night=tonight,
        reports=tuple(reports.values()),
        changes=changes_since([reports[each] for each in newest if each in reports], earlier, weights),
        weights=weights,
        decisions=decisions,
        before=before,
        after=after,
        failures=failures,
    )


def label_reports(reports: Mapping[Contestant, EvalReport]) -> dict[Contestant, EvalReport]:
    """The reports by contestant; of two under one name the later one is called by its weights, too.

    **Example** the newest "r@1", and the champion "r@1" from before a restart: "r@1" and "r@1 (1f0c9a3e)".
    """
    shown: dict[Contestant, EvalReport] = {}
    for each, report in reports.items():
        is_taken = any(report.agent == other.agent for other in shown.values())
        label = f"{report.agent} ({(each.weights or 'unknown')[:8]})" if is_taken else report.agent
        shown[each] = replace(report, agent=label)
    return shown


def _find_champion(
    nightly: NightlySuite, before: PromotionState | None, kept: StoreConfig, failures: dict[str, str]
) -> Contestant | None:
    """The champion with its weights; None without one, and for one whose weights are gone, which is noted in `failures`."""
    name = before.champion if before else nightly.champion
    if name is None:
        return None
    if before is None or before.champion_weights is None:
        return _resolve(kept, name, failures)
    try:
        if is_there(kept, before.holder):
            return before.holder
    except TroupeError as error:  # as a damaged record, which can be restored: it stays champion
        _log.warning("the champion %s of %s is not found: %s", name, nightly.name, error)
        return before.holder
    failures[name] = (
        f"the champion's weights {before.champion_weights[:8]} are gone from the store; the best newest checkpoint of tonight "
        "takes its place"
    )
    return None


def _resolve(kept: StoreConfig, subject: str, failures: dict[str, str]) -> Contestant | None:
    """The contestant that a subject names; None for one that is not there, which is noted in `failures`."""
    try:
        return find_contestant(kept, subject)
    except TroupeError as error:
        failures[subject] = f"{type(error).__name__}: {error}"
        return None


def _appoint(newest: Sequence[Contestant], reports: Mapping[Contestant, EvalReport]) -> Contestant | None:
    name = appoint_champion([reports[each] for each in newest if each in reports])
    return next((each for each in newest if each.name == name), None)


def _decide(
    nightly: NightlySuite,
    tonight: str,
    promotion: PromotionConfig,
    state: PromotionState,
    newest: Sequence[Contestant],
    kept: StoreConfig,
    play: Callable[[Sequence[Contestant], Suite, int], dict[Contestant, EvalReport]],
) -> tuple[PromotionState, tuple[Decision, ...]]:
    """The state after champion and challengers have played fresh problems, and what that means for each challenger."""
    suite = nightly.fresh_suite(tonight, promotion)
    challengers = select_challengers(state, newest, partial(is_there, kept))
    fresh = play([state.holder, *challengers], suite, suite.seed)
    if state.holder not in fresh:
        return state, ()
    weights = {each.name: each.weights for each in challengers if each.weights is not None}
    played = [fresh[each] for each in challengers if each in fresh]
    return promotion_after(promotion, state, fresh[state.holder], played, weights)


def report_nights(nights: Sequence[SuiteNight], unplayed: Sequence[str], folder: Path | None) -> None:
    """Write the report as Prefect artifacts, and as a page in `folder`; `unplayed` are the active runs that nobody played."""
    markdown = night_markdown(nights, unplayed)
    create_markdown_artifact(key="nightly-evaluation", markdown=markdown, description="The night")
    rows = [row for night in nights for row in row_documents(night)]
    create_table_artifact(key="nightly-models", table=rows, description="Models by suite")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{nights[0].night if nights else 'none'}.html").write_text(
            night_page(nights, unplayed), encoding="utf-8"
        )


def mark_champions(nights: Sequence[SuiteNight]) -> None:
    """Give MLflow's alias `champion` to the champion of each suite. An MLflow that is away is told in a warning: the next night
    tries again."""
    if tracking_url(TrackingConfig()) is None:
        return
    for night in nights:
        if night.after is None:
            continue
        run_id, _, step = night.after.champion.partition("@")
        try:
            name_champion(run_id, int(step), weights=night.after.champion_weights)
        except TroupeError as error:
            _log.warning("MLflow does not know the champion of %s: %s", night.name, error)


def _play(
    nightly: NightlySuite,
    kept: StoreConfig,
    failures: dict[str, str],
    contestants: Sequence[Contestant],
    suite: Suite,
    seed: int,
) -> dict[Contestant, EvalReport]:
    """The reports of the contestants that can be played; the others are noted in `failures`."""
    reports = {}
    for each in contestants:
        try:
            reports[each] = evaluate_subject(
                each.name,
                suite,
                sampling="sample" if nightly.sampling == "sample" else "greedy",
                num_samples=nightly.num_samples,
                seed=seed,
                results=ResultsStore(config=kept),
                find_run=partial(find_exact_run, kept, each.weights),
                play=play_in_flow,
            )
        except TroupeError as error:  # one subject's error, as a checkpoint that was removed
            _log.warning("%s on %s is not played: %s", each.name, nightly.name, error)
            failures[each.name] = f"{type(error).__name__}: {error}"
    return reports


def _night(night: date | str | None) -> str:
    """The date of a night as text; None: that for which the flow run was scheduled."""
    if night is not None:
        return str(night)
    scheduled = runtime.flow_run.scheduled_start_time or datetime.now(UTC)
    return scheduled.date().isoformat()
