"""Plays one shard of a step's problems."""

from components.artifacts.refs import ArtifactRef
from components.reporting import progress
from components.rollout.journal import Journal
from components.rollout.sampler import collect_shard
from components.runs.pipeline import When
from components.schema import PolicyVersion
from components.session.session import Session
from components.tool_calls.journal import ToolJournal
from tasks.refresh_weights import ensure_loaded
from tasks.stage import current_key, stage


@stage(
    "collect_rollouts",
    version=11,
    reads=(
        # Rollouts depend on the rubric but do not read `rewards`: a restart at the reward stage under another rubric must find
        # the rollouts of its step, whose lineage has the configuration of before.
        *("seed", "environment", "agents", "policies", "generation", "rollout", "execution"),
        "rewards.team_credit",  # it decides which continuations are played
        # It decides which problems have no signal, and whether values of nodes are measured.
        When(path="algorithm", applies=lambda config: config.rollout.max_resamples > 0),
        When(path="algorithm.advantage", applies=lambda config: config.algorithm.reads_solver),
    ),
    writes="rollouts",
    expires_with="rollouts",
    timeout_seconds=4 * 3600,
)
def collect_rollouts(
    session: Session, step: int, part: int, versions: dict[str, PolicyVersion], seating: dict[str, str] | None = None
) -> ArtifactRef:
    """A reference to the shard's RolloutShard. Blocks that an interrupted attempt finished are not played again.

    `seating` says who plays each agent; None: the policies of the configuration.
    """
    session.scenario.check_data()
    ensure_loaded(session, versions)
    scenario, store, key = session.scenario, session.store, current_key()
    shard = collect_shard(
        scenario.shard_plan(step=step, shard=part),
        family=scenario.family,
        router=session.router(versions, seating, calls=key.path),
        rubric=scenario.training_rubric,
        tools=session.toolbox.tools(journal=ToolJournal(store, key.path)),
        refilling=scenario.refilling(step=step, shard=part),
        journal=Journal(store, key.path),
        progress=progress.reporter("collect_rollouts", step),
    )
    return session.kept.put(shard)
