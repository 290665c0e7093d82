"""The problems of a recorded step, played now by the weights of another step: so that two checkpoints stand side by side."""

from dataclasses import replace

from components.rewards.credit import credit_rule
from components.rewards.score import score_shard
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import NumberedProblem
from components.runs.history import Progress
from components.schema import RolloutShard, ScoredShard
from components.session.scenario import Scenario
from troupe.teams.run_team import Team, find_run, run_team
from troupe.viewing.recorded import RecordedStep, as_recorded


def play_recorded(
    recorded: RecordedStep,
    num_updates: int,
    *,
    store_uri: str | None,
    problem: str | None = None,
    progress: Progress = lambda done, total: None,
) -> RecordedStep:
    """The step's problems (or `problem` alone) played by the run's weights after `num_updates` updates, with the seeds of the
    recorded step. Stores nothing.

    Equal problems and seeds, so that what differs comes from the weights; the weights that played the record play it again.
    Raises ConfigurationError if the run has no such update, and what engines and sandboxes raise.
    """
    run = find_run(recorded.run.run_id, store_uri)
    with run_team(run, num_updates) as team:
        scenario = team.session.scenario
        shard, scored = _play(team, _plan(scenario, recorded, problem), progress)
    note = f"played now by the weights of step {num_updates}, with the problems and seeds of step {recorded.step}"
    if run.config.method.learns_from_credits:
        note += "; each member plays its own agent of the configuration, and no past self plays"
    played = as_recorded(run, num_updates, recorded.config, {"0": shard}, {"0": scored})
    return replace(played, notes=(note, *played.notes))


def _plan(scenario: Scenario, recorded: RecordedStep, problem: str | None) -> ShardPlan:
    """The plan of one shard with all different problems of the record, none of which is replaced for want of a signal."""
    problems = {each.episode.problem.problem_id: each.episode.problem for each in recorded.episodes}
    plan = scenario.shard_plan(step=recorded.step, shard=0)
    return replace(
        plan,
        settings=plan.settings.model_copy(update={"max_resamples": 0}),
        problems=tuple(
            NumberedProblem(problem=each, occurrence=0) for name, each in problems.items() if problem in (None, name)
        ),
    )


def _play(team: Team, plan: ShardPlan, progress: Progress) -> tuple[RolloutShard, ScoredShard]:
    """The shard and its rewards, as the stages of training make them."""
    scenario, toolbox = team.session.scenario, team.session.toolbox
    shard = collect_shard(
        plan,
        family=scenario.family,
        router=team.router,
        rubric=scenario.training_rubric,
        tools=toolbox.tools(),
        progress=progress,
    )
    scored = score_shard(
        shard,
        family=scenario.family,
        rubric=scenario.training_rubric,
        credit=credit_rule(team.config),
        tools=toolbox.tools(known=shard.tools),
        overlong=scenario.overlong,
        own=scenario.own_rewards,
        max_unscorable_fraction=team.config.rewards.max_failed_fraction,
        turn_order=scenario.turn_order,
    )
    return shard, scored
