"""The night of players of games: the newest checkpoint of each active run of train-hybrid, by the run's own evaluation.

Their problems are starts of a game and their players no language models, so that no suite fits them. Runs whose games, goal and
starts are equal have one suite digest and are one table. They have no champion: who is the best at a game is not promoted.
"""

import logging
from collections.abc import Sequence

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import TroupeError
from components.evaluation.night_records import read_nights
from components.evaluation.nightly import SuiteNight, changes_since
from components.methods.contenders import ResultsStore
from components.methods.hybrid.play import suite_digest, suite_title
from components.runs.run import Run
from components.schema import EvalReport
from components.session.session import Session
from components.session.team_weights import read_weights
from flows.active_runs import read_newest_step
from flows.games_evaluation import own_sampling, player_report

_log = logging.getLogger(__name__)


def games_nights(store: ArtifactStore, kept: StoreConfig, tonight: str, active: Sequence[Run]) -> list[SuiteNight]:
    """The nights of the active runs of train-hybrid, one for each suite digest. A run that cannot be played is among the
    failures and ends no other."""
    players = [
        run.kept_in(kept)
        for run in active
        if run.config.method.nights == "games" and read_newest_step(store, run) is not None
    ]
    suites: dict[str, list[Run]] = {}
    for run in players:
        with Session(run) as session:
            suites.setdefault(f"{suite_title(session).replace('/', '-')}-{suite_digest(session)}", []).append(run)
    return [_night(name, runs, store, tonight) for name, runs in suites.items()]


def _night(name: str, runs: Sequence[Run], store: ArtifactStore, tonight: str) -> SuiteNight:
    earlier = read_nights(store, name, before=tonight)
    reports: list[EvalReport] = []
    failures: dict[str, str] = {}
    weights: dict[str, str] = {}
    for run in runs:
        at = read_newest_step(store, run) or 0
        try:
            if (digest := read_weights(store, run, at)) is not None:
                weights[f"{run.run_id}@{at}"] = digest
            reports.append(
                player_report(run, at, own_sampling(run), trained=run, results=ResultsStore(config=run.config.store))
            )
        except TroupeError as error:  # one run's error, as an emulator that is not installed
            _log.warning("%s@%d on %s is not played: %s", run.run_id, at, name, error)
            failures[f"{run.run_id}@{at}"] = f"{type(error).__name__}: {error}"
    return SuiteNight(
        name=name,
        night=tonight,
        reports=tuple(reports),
        changes=changes_since(reports, earlier, weights),
        weights=weights,
        failures=failures,
    )
