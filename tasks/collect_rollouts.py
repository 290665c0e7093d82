"""Play one shard of a step's problems."""

from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.rollout.journal import Journal
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import shard_problems
from components.schema import PolicyVersion
from tasks import progress, wiring, world
from tasks.refresh_weights import hold
from tasks.run import Run
from tasks.stage_task import current_key, stage_task


@stage_task("collect_rollouts", version=1)
def collect_rollouts(run: Run, step: int, part: int, versions: dict[str, PolicyVersion]) -> ArtifactRef:
    """The reference of the shard's RolloutShard. Finished blocks of an interrupted attempt are not played again."""
    hold(run, versions)
    config, store = run.config, wiring.store(run.config)
    family, options = wiring.environment(config)
    plan = ShardPlan(
        step=step,
        shard=part,
        seed=config.seed,
        max_turns=config.environment.max_turns,
        settings=config.rollout,
        problems=shard_problems(config, family, options, step=step, shard=part),
        turn_order=wiring.turn_order(config),
    )
    shard = collect_shard(
        plan,
        family=family,
        router=wiring.router(config, versions),
        rubric=wiring.rubric(config),
        tools=world.tools(config, journal=current_key().path),
        refilling=wiring.refilling(config, step=step, shard=part),
        journal=Journal(store, current_key().path),
        progress=progress.teller("collect_rollouts", step),
    )
    return put(store, shard)
