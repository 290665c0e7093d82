"""The authoritative rewards of one shard."""

from components.artifacts.payloads import get, put
from components.artifacts.refs import ArtifactRef
from components.rewards.score import score_shard
from components.schema import RolloutShard
from tasks import progress, wiring, world
from tasks.run import Run
from tasks.stage_task import current_key, stage_task


@stage_task("compute_rewards", version=1)
def compute_rewards(run: Run, step: int, part: int, rollouts: ArtifactRef) -> ArtifactRef:
    """The reference of the shard's ScoredShard, recomputed from the recorded episodes and executions."""
    config, store = run.config, wiring.store(run.config)
    shard = get(store, rollouts, RolloutShard)
    tools = world.tools(
        config,
        known=shard.tools if config.rewards.reuse_executions else None,
        journal=current_key().path,
        deadline_seconds=config.rewards.deadline_seconds,
    )
    scored = score_shard(
        shard,
        family=wiring.environment(config)[0],
        rubric=wiring.rubric(config),
        tools=tools,
        overlong=wiring.overlong(config),
        own=wiring.own(config),
        shuffle_seed=config.seed if config.rewards.shuffle_between_groups else None,
        max_unscorable_fraction=config.rewards.max_failed_fraction,
        turn_order=wiring.turn_order(config),
        progress=progress.teller("compute_rewards", step),
    )
    world.check_record(config, shard, tools)
    return put(store, scored)
