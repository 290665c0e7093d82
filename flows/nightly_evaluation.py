"""Evaluates champion and challengers every night, reports what changed, and promotes by a rule."""

import logging
from collections.abc import Iterator, Sequence
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
    PromotionConfig,
    SuiteNight,
    appointed,
    change_sentence,
    changes_since,
    night_markdown,
    promotion_after,
    row_documents,
)
from components.evaluation.nightly_page import night_page
from components.evaluation.promotion import Decision, PromotionState
from components.evaluation.suites import Suite
from components.runs.steps import first_unfinished_step
from components.schema import EvalReport
from components.session.contenders import ResultsStore
from components.session.stores import open_store
from components.session.trackers import name_champion, tracking_url
from flows.active_runs import active_runs
from flows.evaluate import evaluate_subject, find_stored_run
from flows.nightly_games import games_nights
from flows.prefect_runtime.interruptible_flow import interruptible_flow
from flows.prefect_runtime.retrying_transport import retry_prefect_outages
from flows.suite_blocks import play_in_flow

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
    """Evaluate all subjects of all suites, and all active runs of train-hybrid by their own evaluations; return what changed.

    `night`: None is the date for which the run was scheduled, so that a run that comes late, or again, plays the same problems.
    `active_days`: runs whose last session began earlier do not play. `pages`: a folder for the report as HTML. Raises
    NightFailed after everything is reported, if a run's newest checkpoint is worse than its last.
    """
    retry_prefect_outages(ResourceConfig().prefect_patience_seconds)
    tonight, kept = _night(night), store or StoreConfig()
    opened, rule = open_store(kept), promotion or PromotionConfig()
    nights = [suite_night(each, tonight, opened, kept, rule, active_days) for each in suites]
    nights += games_nights(opened, kept, tonight, active_days)
    records = [keep_night(opened, each) for each in nights]
    report_nights(nights, Path(pages) if pages else None)
    mark_champions(nights)
    regressions = [f"{each.name}: {change_sentence(change)}" for each in nights for change in each.regressions]
    if regressions:
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
    active_days: int,
) -> SuiteNight:
    """The night of one suite. A subject that cannot be played ends no other."""
    earlier = read_nights(store, nightly.name, before=tonight)
    state = next((each.after for each in reversed(earlier) if each.after is not None), None)
    champions = [state.champion] if state else [nightly.champion] if nightly.champion else []
    newest = list(newest_checkpoints(store, nightly, date.fromisoformat(tonight), active_days))
    subjects = list(dict.fromkeys([*champions, *newest, *nightly.subjects]))
    failures: dict[str, str] = {}
    played = partial(_played, nightly, kept, failures)
    reports = played(subjects, nightly.suite, 0)
    champion = champions[0] if champions else appointed(reports)
    decisions: tuple[Decision, ...] = ()
    after = state
    if champion is not None:
        before = state or PromotionState(champion=champion)
        contestants = [champion, *(each for each in newest if each != champion)]
        suite = nightly.fresh_suite(tonight, promotion)
        fresh = played(contestants, suite, suite.seed)
        after = before
        if any(each.agent == champion for each in fresh):
            after, decisions = promotion_after(promotion.rule, before, fresh)
    return SuiteNight(
        name=nightly.name,
        night=tonight,
        reports=tuple(reports),
        changes=changes_since(reports, earlier),
        decisions=decisions,
        before=state,
        after=after,
        failures=failures,
    )


def newest_checkpoints(store: ArtifactStore, nightly: NightlySuite, tonight: date, active_days: int) -> Iterator[str]:
    """The newest checkpoint of each active run that plays the suite's environment, as RUN@STEP. Players of games have nights of
    their own."""
    for run in active_runs(store, tonight, active_days):
        is_wanted = (
            run.config.environment.name == nightly.suite.environment.name
            if nightly.presets is None
            else run.config.preset in nightly.presets
        )
        if is_wanted and run.config.hybrid is None:
            yield f"{run.run_id}@{first_unfinished_step(store, run)}"


def report_nights(nights: Sequence[SuiteNight], folder: Path | None) -> None:
    """Write the report as Prefect artifacts, and as a page in `folder`."""
    create_markdown_artifact(key="nightly-evaluation", markdown=night_markdown(nights), description="The night")
    rows = [row for night in nights for row in row_documents(night)]
    create_table_artifact(key="nightly-models", table=rows, description="Models by suite")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{nights[0].night if nights else 'none'}.html").write_text(night_page(nights), encoding="utf-8")


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
            name_champion(run_id, int(step))
        except TroupeError as error:
            _log.warning("MLflow does not know the champion of %s: %s", night.name, error)


def _played(
    nightly: NightlySuite, kept: StoreConfig, failures: dict[str, str], subjects: Sequence[str], suite: Suite, seed: int
) -> list[EvalReport]:
    """The reports of the subjects that can be played; the others are noted in `failures`."""
    reports = []
    for subject in subjects:
        try:
            report = evaluate_subject(
                subject,
                suite,
                sampling="sample" if nightly.sampling == "sample" else "greedy",
                num_samples=nightly.num_samples,
                seed=seed,
                results=ResultsStore(config=kept),
                find_run=partial(find_stored_run, kept),
                play=play_in_flow,
            )
            reports.append(report)
        except TroupeError as error:  # one subject's error, as a checkpoint that was removed
            _log.warning("%s on %s is not played: %s", subject, nightly.name, error)
            failures[subject] = f"{type(error).__name__}: {error}"
    return reports


def _night(night: date | str | None) -> str:
    """The date of a night as text; None: that for which the flow run was scheduled."""
    if night is not None:
        return str(night)
    scheduled = runtime.flow_run.scheduled_start_time or datetime.now(UTC)
    return scheduled.date().isoformat()
