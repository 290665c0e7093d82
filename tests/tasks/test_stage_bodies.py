"""What a stage computes of the configuration: known by hand, on rollouts without a model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.rollout.router import Router
from components.rollout.sampler import collect_shard
from components.rollout.shards import NumberedProblem
from components.schema import PolicyVersion, Problem, RolloutShard, ScoredShard
from flows.presets import preset_config
from tasks.compute_rewards import compute_rewards
from tasks.run import Run
from tasks.session import Session
from tests.components.generation.scripted import CharacterTokenizer, ScriptedGenerator

VERSION = PolicyVersion(policy="team", step=0, weights_digest="d")
ROWS = ["......."] * 7
CORRIDOR: dict[str, Any] = {"size": 7, "rows": ROWS, "start": [0, 0], "goal": [0, 6], "max_moves": 10}
"""Six moves to the right solve it."""


def session_of(root: Path, *overrides: str) -> Session:
    team = ["rollout={num_problems: 1, problems_per_block: 1, group_size: 2, num_shards: 1}", "environment.max_turns=2"]
    local = ["store.kind=local", f"store.root={root}", "tracking.kind=none"]
    return Session(Run(run_id="run", config=preset_config("tiny", [*local, *team, *overrides])))


def walked(session: Session, answer: str) -> RolloutShard:
    """The corridor, played by a team whose every answer is the same, with all continuations that the configuration asks for."""
    scenario = session.scenario
    tokenizer = CharacterTokenizer(scenario.family.alphabet(scenario.options))
    engine = ScriptedGenerator(lambda prompt, seed: answer, tokenizer, VERSION)
    problem = Problem(problem_id="corridor", environment="plan_path", payload=CORRIDOR)
    plan = replace(scenario.shard_plan(step=0, shard=0), problems=(NumberedProblem(problem=problem, occurrence=0),))
    router = Router({"team": engine}, seats=scenario.seats, versions={"team": VERSION})
    return collect_shard(plan, family=scenario.family, router=router, rubric=scenario.training_rubric)


@pytest.mark.parametrize(
    ("team_credit", "progress"),
    [
        ("node", 2 / 6),  # its own two moves, of the six from where it stood
        ("turn_end", 2 / 4),  # the last answer of the lines below it: two moves of the four that are left
        ("episode_end", 4 / 6),  # the same end, counted from the start
    ],
)
def test_the_reward_stage_takes_the_team_term_where_team_credit_says(
    team_credit: str, progress: float, tmp_path: Path
) -> None:
    with session_of(tmp_path, "rewards.team_credit=episode_end") as recording:
        shard = walked(recording, "RR")
    with session_of(tmp_path, f"rewards.team_credit={team_credit}") as session:
        ref = compute_rewards.fn(session, 0, 0, session.kept.put(shard))
        scored = session.kept.get(ref, ScoredShard)
    (rewards_N_K,) = scored.rewards_E_N_K
    nodes = shard.episodes[0].nodes
    deciding = [
        rewards_K
        for node, rewards_K in zip(nodes, rewards_N_K, strict=True)
        if node.compared and (node.group.turn, node.group.agent) == (0, "plan_agent")
    ]
    clean = 0.1
    assert deciding == [pytest.approx((0.2 * progress + clean,) * 2)]
