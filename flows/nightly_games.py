"""The night of players of games: the newest checkpoint of each active run of train-hybrid, by the run's own evaluation.

Their problems are starts of a game and their players no language models, so that no suite fits them. Runs whose games, goal and
starts are equal have one suite digest and are one table. They have no champion: who is the best at a game is not promoted.
"""

import logging
from collections.abc import Sequence
from datetime import date

from pydantic import TypeAdapter

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.config.hybrid import REFLEXES
from components.errors import TroupeError
from components.evaluation.held_out import Sampling
from components.evaluation.night_records import read_nights
from components.evaluation.nightly import SuiteNight, changes_since
from components.runs.history import read_history
from components.runs.run import Run
from components.runs.steps import checkpoints_before, first_unfinished_step
from components.schema import EvalReport
from components.session.hybrid import evaluated, suite_digest, suite_title
from components.session.session import Session
from flows.active_runs import active_runs
from flows.hybrid_iteration import model_versions
from tasks.refresh_weights import ensure_loaded

_REPORT = TypeAdapter(EvalReport)
_log = logging.getLogger(__name__)


def games_nights(store: ArtifactStore, kept: StoreConfig, tonight: str, active_days: int) -> list[SuiteNight]:
    """The nights of all active runs of train-hybrid, one for each suite digest. A run that cannot be played is among the
    failures and ends no other."""
    players = [
        run.kept_in(kept)
        for run in active_runs(store, date.fromisoformat(tonight), active_days)
        if run.config.hybrid is not None
    ]
    suites: dict[str, list[Run]] = {}
    for run in players:
        with Session(run) as session:
            suites.setdefault(f"{suite_title(session).replace('/', '-')}-{suite_digest(session)}", []).append(run)
    return [_night(name, runs, store, tonight) for name, runs in suites.items()]


def _night(name: str, runs: Sequence[Run], store: ArtifactStore, tonight: str) -> SuiteNight:
    earlier = read_nights(store, name, before=tonight)
    reports, failures = [], {}
    for run in runs:
        at = first_unfinished_step(store, run)
        try:
            reports.append(_report(run, at, store))
        except TroupeError as error:  # one run's error, as an emulator that is not installed
            _log.warning("%s@%d on %s is not played: %s", run.run_id, at, name, error)
            failures[f"{run.run_id}@{at}"] = f"{type(error).__name__}: {error}"
    return SuiteNight(
        name=name,
        night=tonight,
        reports=tuple(reports),
        changes=changes_since(reports, earlier),
        failures=failures,
    )


def _report(run: Run, at: int, store: ArtifactStore) -> EvalReport:
    """The report of a run after `at` updates: its own where training has evaluated itself there, else a new one."""
    sampling = own_sampling(run)
    with Session(run) as session:
        wanted = (f"{run.run_id}@{at}", suite_digest(session), sampling)
        for known in own_reports(store, run, at):
            if (known.agent, known.suite_digest, known.sampling) == wanted:
                return known
        checkpoints = checkpoints_before(store, run, at)
        versions = model_versions(session, checkpoints)
        ensure_loaded(session, versions)
        return evaluated(session, at, sampling, checkpoints[REFLEXES], versions)


def own_reports(store: ArtifactStore, run: Run, at: int) -> list[EvalReport]:
    """What the run's training has reported up to `at` updates."""
    return [_REPORT.validate_python(each) for each in read_history(store, run, at).evaluations]


def own_sampling(run: Run) -> Sampling:
    """How a run's player is evaluated at night: sampled, if its own evaluations are; a greedy one walks against walls."""
    samplings = run.config.evaluation.sampling
    return "sample" if "sample" in samplings else samplings[0]
