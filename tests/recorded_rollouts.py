"""Rollouts made up node by node, and committed as a real run's are."""

from collections.abc import Sequence
from typing import Any

from components.artifacts.base import ArtifactStore
from components.artifacts.payloads import put
from components.artifacts.refs import ArtifactRef
from components.identity import GroupKey
from components.runs.run import Run
from components.runs.stage_protocol import run_stage
from components.schema import (
    ActionOutcome,
    Candidate,
    Episode,
    Node,
    PolicyVersion,
    Problem,
    RolloutShard,
    ScoredShard,
)
from tests.committed_runs import stage_key


def candidate(text: str = "U", *, reward: float = 0.0, solves: bool = False, **outcome: Any) -> Candidate:
    facts = {"team": {"solved": float(solves)}, "local": {}, "solves": solves, "done": False, **outcome}
    return Candidate(
        tokens=tuple(range(2, 2 + len(text))),
        sampler_logprobs=(-0.5,) * len(text),
        finish_reason="stop",
        text=text,
        outcome=ActionOutcome(**facts),
        reward=reward,
    )


def node(*candidates: Candidate, agent: str = "tool_agent", turn: int = 0, chosen: int = 0, **more: Any) -> Node:
    return Node(
        group=GroupKey(problem_id="p", episode=0, turn=turn, agent=agent),
        policy="team",
        prompt_tokens=(2, 3),
        candidates=candidates,
        chosen=chosen,
        **more,
    )


def episode(*nodes: Node, problem: str = "p", success: bool = False, **more: Any) -> Episode:
    made = Problem(problem_id=problem, environment="plan_path", payload={"grid": ["..", ".#"]})
    return Episode(problem=made, episode=0, nodes=nodes, success=success, **more)


def shard(step: int, number: int, *episodes: Episode) -> RolloutShard:
    return RolloutShard(
        step=step,
        shard=number,
        policy_versions={"team": PolicyVersion(policy="team", step=step, weights_digest=f"w{step}")},
        episodes=episodes,
    )


def commit_rollouts(
    store: ArtifactStore, run: Run, made: RolloutShard, *, rewards: Sequence[Any] | None = None, lineage: int = 0
) -> None:
    """The shard, and its rewards unless they are None."""
    part = str(made.shard)
    key = stage_key(run, made.step, "collect_rollouts", part, lineage=lineage)
    run_stage(store, key, lambda: put(store, made), ArtifactRef)
    if rewards is not None:
        scored = ScoredShard(step=made.step, shard=made.shard, rewards_E_N_K=tuple(rewards))
        key = stage_key(run, made.step, "compute_rewards", part, lineage=lineage)
        run_stage(store, key, lambda: put(store, scored), ArtifactRef)
