"""The nights of runs that no suite fits: the newest checkpoint of each active one, by the run's own evaluation.

Players of games meet starts that training has not seen; those of equal games, goal and starts are one table. In games that pay,
success says nothing of a member: what one wins another loses. So each member plays with its newest weights among the others as
they were on the last night, and its return is compared in pairs with what its earlier weights earned. Neither has a champion.
"""

import logging
from collections.abc import Mapping, Sequence

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import TroupeError
from components.evaluation.comparison import payoff_differences
from components.evaluation.night_records import read_nights
from components.evaluation.nightly import ReturnChange, SuiteNight, changes_since, last_other
from components.evaluation.subjects import RegisteredSubject, RunSubject
from components.methods.base import method_for
from components.methods.contenders import ResultsStore
from components.runs.run import Run
from components.schema import EvalReport
from components.session.scenario import scenario_of
from components.session.team_weights import read_weights
from flows.active_runs import read_newest_step
from flows.evaluate import evaluate_subject
from flows.nightly_subjects import find_exact_run
from flows.suite_blocks import play_in_flow

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
