"""The night of populations: the newest checkpoint of each active run of train-population, by the run's own evaluation.

In games that pay, success says nothing of a member: what one wins another loses. So each member plays with its newest weights
among the others as they were on the last night, and its return is compared in pairs with what its earlier weights earned there.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from components.artifacts.base import ArtifactStore
from components.config import StoreConfig
from components.errors import TroupeError
from components.evaluation.comparison import payoff_differences
from components.evaluation.night_records import read_nights
from components.evaluation.nightly import ReturnChange, SuiteNight, changes_since, last_other
from components.evaluation.subjects import RegisteredSubject, RunSubject
from components.methods.contenders import ResultsStore
from components.runs.run import Run
from components.schema import EvalReport
from components.session.team_weights import read_weights
from flows.active_runs import read_newest_step
from flows.evaluate import evaluate_subject
from flows.games_evaluation import own_sampling
from flows.nightly_subjects import find_exact_run
from flows.suite_blocks import play_in_flow

_log = logging.getLogger(__name__)


def population_nights(store: ArtifactStore, kept: StoreConfig, tonight: str, active: Sequence[Run]) -> list[SuiteNight]:
    """The nights of the active populations, each under its own name. One that cannot be played is among its failures and ends
    no other."""
    ready = [(run, read_newest_step(store, run)) for run in active if run.config.method.nights == "returns"]
    return [_night(run, step, store, kept, tonight) for run, step in ready if step is not None]


def _night(run: Run, step: int, store: ArtifactStore, kept: StoreConfig, tonight: str) -> SuiteNight:
    name, agent, weights = f"population-{run.run_id}", f"{run.run_id}@{step}", read_weights(store, run, step)
    earlier = read_nights(store, name, before=tonight)
    known = {} if weights is None else {agent: weights}
    night = SuiteNight(name=name, night=tonight, reports=(), changes=(), weights=known, failures={})
    try:
        report = _evaluate(run, kept, agent, {step: weights})
        changes = () if report.payoffs_P else changes_since([report], earlier, known)
        returns = _returns(run, kept, report, earlier, weights) if report.payoffs_P else ()
    except TroupeError as error:  # one run's error, as a checkpoint that was removed
        _log.warning("%s is not played: %s", agent, error)
        return replace(night, failures={agent: f"{type(error).__name__}: {error}"})
    return replace(night, reports=(report,), changes=changes, returns=returns)


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
        sampling=own_sampling(run),
        results=ResultsStore(config=kept),
        find_run=find,
        play=play_in_flow,
    )
