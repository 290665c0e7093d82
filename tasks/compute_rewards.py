"""The authoritative rewards of one shard."""

from components.artifacts.payloads import get, put
from components.artifacts.refs import ArtifactRef
from components.rewards.score import score_shard
from components.schema import RolloutShard
from tasks import wiring
from tasks.run import Run
from tasks.stage_task import stage_task


@stage_task("compute_rewards", version=1)
def compute_rewards(run: Run, step: int, part: int, rollouts: ArtifactRef) -> ArtifactRef:
    """The reference of the shard's ScoredShard, recomputed from the recorded episodes."""
    config, store = run.config, wiring.store(run.config)
    scored = score_shard(
        get(store, rollouts, RolloutShard),
        family=wiring.environment(config)[0],
        rubric=wiring.rubric(config),
        shuffle_seed=config.seed if config.rewards.shuffle_between_groups else None,
    )
    return put(store, scored)
