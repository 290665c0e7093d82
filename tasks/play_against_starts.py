"""Plays each trained agent of a population against its partners as they were at the start."""

from components.evaluation.comparison import payoff_difference
from components.evaluation.held_out import Sampling
from components.evaluation.suite_play import SuitePlay, join_plays
from components.methods.base import method_for
from components.methods.population.credits import (
    StartGains,
    list_trained_agents,
    seating_at_start,
    versions_of_seating,
)
from components.metrics import mean
from components.population.seating import Seating
from components.schema import PolicyVersion
from components.session.session import Session
from tasks.evaluate_policy import evaluate_policy, own_plan
from tasks.play_suite import block_calls, play_suite
from tasks.stage import stage


@stage(
    "play_against_starts",
    version=2,
    reads=evaluate_policy.stage.reads,
    optional=True,
    retries=2,
    timeout_seconds=4 * 3600,
)
def play_against_starts(
    session: Session, step: int, part: Sampling, versions: dict[str, PolicyVersion], starts: dict[str, PolicyVersion]
) -> StartGains:
    """What each trained agent earns more than at the start, after `step` updates: on the problems and by the draws of the run's
    own evaluations. What these have played is read. Without payoffs, and of one problem, there are no gains."""
    before = _play_own_suite(session, part, seating_at_start(session.config), starts, versions)
    is_measured = bool(before.payoffs_P_K) and len(before.problems_P) > 1
    gains = []
    for agent in list_trained_agents(session.config) if is_measured else ():
        after = _play_own_suite(session, part, seating_at_start(session.config, agent), starts, versions)
        gains.append(payoff_difference(agent, _average_earnings(before, agent), _average_earnings(after, agent)))
    told = StartGains(gains=tuple(gains), num_problems=len(before.problems_P))
    if gains:
        session.published.post_metrics(step, told.metrics, stage="play_against_starts")
    return told


def _play_own_suite(
    session: Session,
    sampling: Sampling,
    seating: Seating,
    starts: dict[str, PolicyVersion],
    versions: dict[str, PolicyVersion],
) -> SuitePlay:
    """The play of the run's own suite by the players of a seating."""
    seated, plan = versions_of_seating(seating, starts, versions), own_plan(session, sampling)
    players = method_for(session.config).evaluation.name_players(session, plan, seated, {}, seating)
    calls = block_calls(session, plan, players, seated, {}, seating)
    return join_plays([play_suite.in_lineage(*call) for call in calls])


def _average_earnings(play: SuitePlay, agent: str) -> list[float]:
    """What an agent earned an episode, by problem; nothing where it was never paid."""
    return [mean(earned_K) for earned_K in play.payoffs_P_K.get(agent, [(0.0,)] * len(play.problems_P))]
