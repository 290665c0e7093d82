"""Warnings of steps that teach next to nothing."""

from typing import Any

import pytest

from components.config import RewardConfig, RunConfig
from components.evaluation.held_out import ReportHeader, Sampling, list_answer_metrics, report_from
from components.evaluation.suite_play import AnswerCounts, SuitePlay
from components.identity import GroupKey
from components.rollout.lessons import first_look, own_reward_warnings, step_warnings
from components.rollout.statistics import step_metrics
from components.runs.run import Run
from components.schema import (
    ActionOutcome,
    Candidate,
    Episode,
    EvalReport,
    FinishReason,
    Node,
    Problem,
    RolloutShard,
    ScoredShard,
)
from components.session.session import Session
from tasks.compute_advantages import warn_of_step
from tests.sections import make_config


def config(prompt_format: str = "chat", **environment: Any) -> RunConfig:
    policies = {"p": {"prompt_format": prompt_format}}
    return make_config({"name": "math", "options": {}, **environment}, "tool_agent", "reasoner", policies=policies)


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
        (config(), "stop", "in agents.tool_agent.prompt"),
        (config("compact"), "stop", "raise warm_start.min_success"),
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
    assert not texts([shard("tool_agent", "n" * 7 + "y")], config(), silent=0.89)


@pytest.mark.parametrize(
    ("marks", "told"),
    [
        (
            "n!!!!!!n",
            ["none of 8 answers solves a problem, and 75% of those of tool_agent are malformed", "no program"],
        ),
        ("nnnnnnn!", ["12% of those of tool_agent are malformed", "agents.tool_agent.prompt", "easier problems"]),
        ("nnnnnnnn", ["0% of those", "For example 'No.'."]),
        ("nnnnnnny", []),
        ("nnnn", []),
    ],
)
def test_a_step_in_which_nobody_solves_anything_says_so(marks: str, told: list[str]) -> None:
    lines = texts([shard("tool_agent", marks)], config(), silent=0.4)
    assert len(lines) == bool(told)
    assert all(words in lines[0] for words in told)


def report(num_solved: int, *, n: int = 38, sampling: Sampling = "sample", payoffs: bool = False) -> EvalReport:
    problems = tuple(f"p{number}" for number in range(n))
    solved = tuple((number < num_solved,) for number in range(n))
    answers = AnswerCounts(num_answers=100, num_solving=0, num_malformed=81)
    played = SuitePlay(
        problems_P=problems,
        solved_P_K=solved,
        rewards_P_K=((0.0,),) * n,
        turns_P_K=((1,),) * n,
        agents={"tool_agent": answers},
        payoffs_P_K={"ann": ((0.5,),) * n} if payoffs else {},
    )
    heading = ReportHeader(agent="r@0", suite="math/test", suite_digest="d", step=0, sampling=sampling, seed=0)
    return report_from(heading, played, list_answer_metrics(played))


@pytest.mark.parametrize(
    ("reports", "is_told"),
    [
        ([report(0)], True),
        ([report(0), report(0, sampling="greedy")], True),
        ([report(0, sampling="greedy"), report(1)], False),
        ([report(1)], False),
        ([report(0, n=4)], False),
        ([report(0, payoffs=True)], False),
        ([], False),
    ],
)
def test_an_evaluation_before_training_that_solves_nothing_is_told(reports: list[EvalReport], is_told: bool) -> None:
    found = [warning.text for warning in first_look(reports, config())]
    assert len(found) == is_told
    for line in found:
        assert "none of 38 problems is solved (81% of the answers of tool_agent malformed" in line
        assert "agents.tool_agent.prompt" in line
        assert "`troupe try`" in line


@pytest.mark.parametrize(
    ("own", "rest", "rewards", "is_told"),
    [
        ([3.0, 4.0, 2.0, 3.8], [0.0, 1.0, 0.0, 0.0], {}, True),
        ([3.0, 4.0, 2.0, 3.8], [0.0, 1.0, 0.0, 0.0], {"weights": {"own.length": 0.5}}, False),
        ([3.0, 3.0, 3.0, 3.0], [0.0, 1.0, 0.0, 0.0], {}, False),
        ([0.1, 0.2, 0.1, 0.0], [0.0, 1.0, 0.0, 1.0], {}, False),
        ([-0.1, -0.5, -0.1, 0.0], [0.0, 0.0, 0.0, 0.0], {}, True),
        ([3.0, 4.0, 2.0, 3.8], [0.0, 1.0, 0.0, 0.0], {"shuffle_rewards": True}, False),
        ([3.0, 4.0, 2.0, 3.8], [None, 1.0, None, 0.0], {}, True),
    ],
)
def test_a_reward_function_without_a_weight_that_is_nearly_all_of_the_reward_is_named(
    own: list[float], rest: list[float | None], rewards: dict[str, Any], is_told: bool
) -> None:
    paid = tuple(None if other is None else value + other for value, other in zip(own, rest, strict=True))
    scores = ScoredShard(step=0, shard=0, rewards_E_N_K=((paid,),), own_E_N_K={"own.length": ((tuple(own),),)})
    section = RewardConfig.model_validate({"functions": ["mine:length"], **rewards})
    run = config().model_copy(update={"rewards": section})
    found = [each.text for each in own_reward_warnings([shard("tool_agent", "nnnn")], [scores], run)]
    assert len(found) == is_told
    assert all("own.length is nearly all of the reward" in line for line in found)
    assert all("set rewards.weights.own.length=0." in line for line in found)


def test_a_session_says_each_warning_once(caplog: pytest.LogCaptureFixture) -> None:
    with Session(Run(run_id="r", config=config())) as session:
        for step in (0, 1):
            warn(session, step, "!" * 8)
    (record,) = caplog.records
    assert record.getMessage().startswith("step 0: 8 of 8 answers of tool_agent")


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (("nnnnnnn!", "nnnnnnn!"), ["step 0: none of 8 answers"]),
        (("nnnnnnny", "nnnnnnn!"), []),
        (("nnn", "nnnnnnn!"), ["step 1:"]),
    ],
)
def test_that_nobody_solves_anything_is_said_once_and_never_after_somebody_has(
    steps: tuple[str, ...], told: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with Session(Run(run_id="r", config=config())) as session:
        for step, marks in enumerate(steps):
            warn(session, step, marks)
    assert len(caplog.messages) == len(told)
    assert all(line.startswith(words) for line, words in zip(caplog.messages, told, strict=True))


def warn(session: Session, step: int, marks: str) -> None:
    """The warnings of a step with one group of these answers."""
    shards = [shard("tool_agent", marks)]
    scores = [ScoredShard(step=0, shard=0, rewards_E_N_K=(((0.0,) * len(marks),),))]
    warn_of_step(session, step, shards, scores, step_metrics(shards, scores))
