"""Warnings of steps that teach next to nothing."""

from typing import Any

import pytest

from components.config import RunConfig, parse_config
from components.identity import GroupKey
from components.rollout.lessons import step_warnings
from components.rollout.statistics import step_metrics
from components.runs.run import Run
from components.schema import ActionOutcome, Candidate, Episode, FinishReason, Node, Problem, RolloutShard, ScoredShard
from components.session.session import Session
from tasks.compute_advantages import warn_once


def config(prompt_format: str = "chat", **environment: Any) -> RunConfig:
    return parse_config(
        {
            "num_steps": 1,
            "environment": {"name": "math", "options": {}, **environment},
            "agents": {"tool_agent": {"policy": "p"}, "reasoner": {"policy": "p"}},
            "policies": {"p": {"prompt_format": prompt_format}},
        }
    )


def shard(agent: str, marks: str, text: str = "No.", finish_reason: FinishReason = "stop") -> RolloutShard:
    """One group of `agent`; y solves, n does not, ! is malformed."""
    candidates = tuple(
        Candidate(
            tokens=(1,), sampler_logprobs=(-1.0,), finish_reason=finish_reason, text=text, reward=0.0,
            outcome=ActionOutcome(
                team={"solved": float(mark == "y")}, local={}, solves=mark == "y", done=False,
                error="no program" if mark == "!" else None,
            ),
        )
        for mark in marks
    )  # fmt: skip
    group = GroupKey(problem_id="p", episode=0, turn=0, agent=agent)
    node = Node(group=group, policy="p", prompt_tokens=(1,), candidates=candidates, chosen=0)
    problem = Problem(problem_id="p", environment="math", payload={})
    return RolloutShard(
        step=0,
        shard=0,
        policy_versions={},
        episodes=(Episode(problem=problem, episode=0, nodes=(node,), success=False),),
    )


def texts(shards: list[RolloutShard], run: RunConfig, *, silent: float) -> list[str]:
    scores = [
        ScoredShard(step=0, shard=0, rewards_E_N_K=((tuple(0.0 for _ in each.episodes[0].nodes[0].candidates),),))
        for each in shards
    ]
    values = {**step_metrics(shards, scores), "signal/zero_group_frac": silent}
    return [warning.text for warning in step_warnings(shards, values, run)]


def test_an_agent_whose_answers_nobody_reads_is_named_with_an_answer_a_reason_and_a_remedy() -> None:
    shards = [shard("tool_agent", "!!!!!!!!!y", "\x1b[31m" + "x" * 500), shard("reasoner", "yyyynnnn")]
    (line,) = texts(shards, config(), silent=0.95)
    assert line.startswith("9 of 10 answers of tool_agent are malformed")
    assert "no program" in line
    assert r"\x1b[31mxxx" in line, "escaped"
    assert "agents.tool_agent.prompt" in line
    assert len(line) < 420, "shortened"
    assert not texts([shard("tool_agent", "!!!!!!!!yy")], config(), silent=0.5), "eight of ten are not nearly all"
    assert not texts([shard("tool_agent", "!!!")], config(), silent=0.5), "too few to tell"


@pytest.mark.parametrize(
    ("run", "reason", "remedy"),
    [
        (config(), "length", "10 of them are cut off: raise agents.tool_agent.max_new_tokens"),
        (config(answer_format="strict"), "stop", "set environment.answer_format to free"),
        (config("compact"), "stop", "in agents.tool_agent.prompt"),
    ],
)
def test_the_remedy_fits_the_cause(run: RunConfig, reason: FinishReason, remedy: str) -> None:
    assert remedy in texts([shard("tool_agent", "!" * 10, finish_reason=reason)], run, silent=0.0)[0]


def test_a_step_without_signal_names_the_agent_that_solves_least_or_that_all_is_solved() -> None:
    (line,) = texts([shard("tool_agent", "n" * 8), shard("reasoner", "ynyynyny")], config(), silent=0.9)
    assert line.startswith("90% of the groups have no learning signal")
    assert "tool_agent solves 0% with its answers, for example 'No.' (solved 0)" in line
    assert "easier problems" in line
    (solved,) = texts([shard("tool_agent", "y" * 8)], config(), silent=1.0)
    assert "Harder problems" in solved
    assert not texts([shard("tool_agent", "n" * 8)], config(), silent=0.89)


def test_a_session_says_each_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    shards = [shard("tool_agent", "!" * 8)]
    values = step_metrics(shards, [ScoredShard(step=0, shard=0, rewards_E_N_K=(((0.0,) * 8,),))])
    with Session(Run(run_id="r", config=config())) as session:
        for step in (0, 1):
            warn_once(session, step, step_warnings(shards, values, config()))
    (record,) = caplog.records
    assert record.getMessage().startswith("step 0: 8 of 8 answers of tool_agent")
