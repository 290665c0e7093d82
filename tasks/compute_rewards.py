"""Computes the authoritative rewards of one shard."""

from components.artifacts.refs import ArtifactRef
from components.reporting import progress
from components.rewards.credit import credit_rule
from components.rewards.score import score_shard
from components.runs.pipeline import When
from components.schema import RolloutShard
from components.session.session import Session
from components.tool_calls.journal import ToolJournal
from tasks.stage import current_key, stage


@stage(
    "compute_rewards",
    version=9,
    reads=(
        *("seed", "environment", "rewards", "rollout", "execution"),
        # Their longest answers decide where the penalty begins.
        When(path="agents", applies=lambda config: config.rewards.overlong_buffer > 0),
    ),
    needs=("collect_rollouts",),
    writes="rewards",
    expires_with="rollouts",
    timeout_seconds=3600,
)
def compute_rewards(session: Session, step: int, part: int, rollouts: ArtifactRef) -> ArtifactRef:
    """A reference to the shard's ScoredShard, recomputed from the recorded episodes and executions."""
    scenario, store, rewards = session.scenario, session.store, session.config.rewards
    shard = session.kept.get(rollouts, RolloutShard)
    tools = session.toolbox.tools(
        known=shard.tools if rewards.reuse_executions else None,
        journal=ToolJournal(store, current_key().path),
        deadline_seconds=rewards.deadline_seconds,
    )
    scored = score_shard(
        shard,
        family=scenario.family,
        rubric=scenario.training_rubric,
        credit=credit_rule(session.config),
        tools=tools,
        overlong=scenario.overlong,
        own=scenario.own_rewards,
        shuffle_seed=session.config.seed if rewards.shuffle_rewards else None,
        max_unscorable_fraction=rewards.max_failed_fraction,
        turn_order=scenario.turn_order,
        progress=progress.reporter("compute_rewards", step),
    )
    session.toolbox.check_record(shard, tools)
    return session.kept.put(scored)
