"""The nights of runs that no suite fits: the newest checkpoint of each active one, by the run's own evaluation.

Players of games meet starts that training has not seen; those of equal games, goal and starts are one table. In games that pay,
success says nothing of a member: what one wins another loses. So each member plays with its newest weights among the others as
they were on the last night, and its return is compared in pairs with what its earlier weights earned. Neither has a champion.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import ArtifactCorrupt, ArtifactMissing, ConfigurationError, TroupeError
from components.evaluation.comparison import payoff_differences
from components.evaluation.night_records import read_nights
from components.evaluation.nightly import NightlySuite, ReturnChange, SuiteNight, changes_since, last_other
from components.evaluation.promotion import Contestant, run_named
from components.evaluation.subjects import RegisteredSubject, RunSubject, parse_subject
from components.methods.base import method_for
from components.methods.open_subjects import ResultsStore
from components.runs.initial_checkpoints import read_initial_checkpoints
from components.runs.lineages import list_runs
from components.runs.run import Run
from components.runs.session_records import effective_run, readable_sessions, run_state
from components.runs.steps import first_unfinished_step
from components.runs.stored_runs import read_run
from components.schema import EvalReport
from components.session.scenario import scenario_of
from components.session.stores import open_store
from components.session.team_weights import digest_team, find_run_with, read_weights
from flows.evaluate import evaluate_subject, find_stored_run
from flows.shards import play_in_flow


def active_runs(store: ArtifactStore, tonight: date, active_days: int) -> Iterator[Run]:
    """The runs whose last session began at most `active_days` days before `tonight`. One with a damaged record is left out with
    a warning."""
    oldest = tonight - timedelta(days=active_days)
    for run_id in list_runs(store):
        try:
            sessions = readable_sessions(store, run_id)
            if sessions and datetime.fromisoformat(sessions[-1].started_at).date() >= oldest:
                yield effective_run(store, read_run(store, run_id))
        except ArtifactCorrupt as error:  # one run's error
            _log.warning("%s is left out: %s", run_id, error)


def read_newest_step(store: ArtifactStore, run: Run) -> int | None:
    """The number of finished updates of a run that has something to play.

    None for a run that has no policies yet, and for one that ended before its first update without completing: its policies are
    those that every run of its configuration begins with.
    """
    if finished := first_unfinished_step(store, run):
        return finished
    try:
        state = run_state(store, run, 0).name
    except ArtifactCorrupt as error:
        _log.warning("%s does not play: %s", run.run_id, error)
        return None
    has_policies = state in ("running", "completed") and read_initial_checkpoints(store, run) is not None
    return 0 if has_policies else None


def newest_checkpoints(store: ArtifactStore, nightly: NightlySuite, active: Sequence[Run]) -> Iterator[Contestant]:
    """The newest checkpoint of each active run that plays the suite's environment. Players of games have nights of their own,
    and so have populations, which a suite plays only if it names their preset."""
    for run in active:
        is_wanted = (
            run.config.environment.name == nightly.suite.environment.name and run.config.method.nights == "suites"
            if nightly.presets is None
            else run.config.preset in nightly.presets
        )
        if is_wanted and run.config.method.nights != "games":
            step = read_newest_step(store, run)
            if step is not None:
                yield Contestant(name=f"{run.run_id}@{step}", weights=read_weights(store, run, step))


def find_contestant(kept: StoreConfig, subject: str) -> Contestant:
    """A subject of every night, with its weights as they are now if it is a run. Raises ConfigurationError."""
    parsed = parse_subject(subject)
    if not isinstance(parsed, RunSubject | RegisteredSubject):
        return Contestant(name=subject)
    run, step = find_stored_run(kept, parsed)
    store = open_store(kept)
    at = first_unfinished_step(store, run) if step is None else step
    return Contestant(name=f"{run.run_id}@{at}", weights=read_weights(store, run, at))


def is_there(kept: StoreConfig, contestant: Contestant) -> bool:
    """Whether the contestant's weights are still in the store under its name, before a restart or after it."""
    try:
        find_exact_run(kept, contestant.weights, parse_subject(contestant.name))
    except (ArtifactMissing, ConfigurationError):  # its weights, or its run
        return False
    return True


def find_exact_run(kept: StoreConfig, weights: str | None, subject: object) -> tuple[Run, int | None]:
    """The run that a subject names, as it was when it had these weights; as it is now for None.

    Raises ConfigurationError for an unknown run, ArtifactMissing if no such weights are in the store.
    """
    assert isinstance(subject, RunSubject | RegisteredSubject), f"{subject} is no run"
    run, step = find_stored_run(kept, subject)
    if weights is None or step is None:
        return run, step
    found = find_run_with(open_store(kept), run, step, lambda team: digest_team(team) == weights)
    if found is None:
        raise ArtifactMissing(
            f"{run.run_id}@{step}: its weights {weights[:8]} are gone from the store, with a run or a restart that was removed"
        )
    return found, step


def different(contestants: Iterable[Contestant]) -> list[Contestant]:
    """The contestants without those whose weights an earlier one has under the same run."""
    found: list[Contestant] = []
    for each in contestants:
        if not any(each.run == known.run and each.is_same(known) for known in found):
            found.append(each)
    return found


def list_unplayed_runs(store: ArtifactStore, active: Sequence[Run], nights: Sequence[SuiteNight]) -> Iterator[str]:
    """The active runs that no night has played or tried to play, with the reason. **Example** "own (environment guess)"."""
    agents = (agent for night in nights for agent in (*(each.agent for each in night.reports), *night.failures))
    played = {run_named(agent) for agent in agents}
    for run in active:
        if run.run_id not in played:
            is_ready = read_newest_step(store, run) is not None
            why = f"environment {run.config.environment.name}" if is_ready else "no update is finished"
            yield f"{run.run_id} ({why})"


_log = logging.getLogger(__name__)


def run_nights(store: ArtifactStore, kept: StoreConfig, tonight: str, active: Sequence[Run]) -> list[SuiteNight]:
    """The nights of the active runs that no suite fits, by name. A run that cannot be played is among the failures and ends no
    other."""
    nights: dict[str, list[Run]] = {}
    for run in active:
        if run.config.method.nights != "suites" and read_newest_step(store, run) is not None:
            nights.setdefault(_name_night(run), []).append(run)
    return [_night(name, runs, store, kept, tonight) for name, runs in nights.items()]


def _name_night(run: Run) -> str:
    """**Example** "population-kuhn", and "game_boy-homebrew-1f0c9a3e5b7d" for all runs of one evaluation."""
    if run.config.method.nights == "returns":
        return f"population-{run.run_id}"
    scenario, evaluation = scenario_of(run.config), method_for(run.config).evaluation
    plan = evaluation.plan(scenario, scenario.suite, sampling="greedy", seed=scenario.suite.seed)
    found = evaluation.head(scenario, plan, agent=run.run_id, step=0)
    return f"{found.suite.replace('/', '-')}-{found.suite_digest}"


def _night(name: str, runs: Sequence[Run], store: ArtifactStore, kept: StoreConfig, tonight: str) -> SuiteNight:
    earlier = read_nights(store, name, before=tonight)
    reports: list[EvalReport] = []
    returns: list[ReturnChange] = []
    weights: dict[str, str] = {}
    failures: dict[str, str] = {}
    for run in runs:
        step = read_newest_step(store, run) or 0
        agent = f"{run.run_id}@{step}"
        try:
            if (digest := read_weights(store, run, step)) is not None:
                weights[agent] = digest
            report = _evaluate(run, kept, agent, {step: digest})
            returns += _returns(run, kept, report, earlier, digest) if report.payoffs_P else ()
        except (
            TroupeError
        ) as error:  # one run's error, as a checkpoint that was removed, or an emulator that is not installed
            _log.warning("%s on %s is not played: %s", agent, name, error)
            failures[agent] = f"{type(error).__name__}: {error}"
            continue
        reports.append(report)
    return SuiteNight(
        name=name,
        night=tonight,
        reports=tuple(reports),
        changes=changes_since([each for each in reports if not each.payoffs_P], earlier, weights),
        returns=tuple(returns),
        weights=weights,
        failures=failures,
    )


def _returns(
    run: Run, kept: StoreConfig, report: EvalReport, nights: Sequence[SuiteNight], weights: str | None
) -> tuple[ReturnChange, ...]:
    """The paired change of each learning member's return, the others as they were; none without an earlier checkpoint whose
    weights are still there."""
    found = last_other(report, nights, weights)
    if found is None or found[1].step == report.step:
        return ()
    night, before = found
    digests = {report.step: weights, before.step: night.weights.get(before.agent)}
    changes = []
    for member, agent in run.config.agents.items():
        if run.config.policies[agent.policy].trained:
            team = ",".join(f"{role}={report.agent if role == member else before.agent}" for role in run.config.agents)
            try:
                mixed = _evaluate(run, kept, team, digests)
            except TroupeError as error:
                _log.warning("%s is not compared with %s: %s", report.agent, before.agent, error)
                return ()
            changes += [
                ReturnChange(base=before.agent, other=report.agent, num_problems=report.n, change=each)
                for each in payoff_differences(before, mixed)
                if each.agent == member
            ]
    return tuple(changes)


def _evaluate(run: Run, kept: StoreConfig, subject: str, weights: Mapping[int, str | None]) -> EvalReport:
    """The report of a team of the run's checkpoints, whose digests are by step, on the run's own problems."""

    def find(each: RunSubject | RegisteredSubject) -> tuple[Run, int | None]:
        assert isinstance(each, RunSubject), f"{each} is no run"
        assert each.step is not None, f"{each} names no step"
        return find_exact_run(kept, weights[each.step], each)

    return evaluate_subject(
        subject,
        None,
        sampling=run.config.evaluation.preferred_sampling,
        results=ResultsStore(config=kept),
        find_run=find,
        play=play_in_flow,
    )
