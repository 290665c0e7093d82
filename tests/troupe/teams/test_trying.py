"""What `troupe try` reports of the answers before training."""

from pathlib import Path

import pytest

from components.errors import ConfigurationError
from components.identity import GroupKey
from components.rewards.own_rewards import CustomReward
from components.schema import ActionOutcome, Candidate, Episode, Node, Problem
from components.session.scenario import scenario_of
from flows.presets import preset_config
from troupe.teams.trying import (
    Trial,
    TriedAgent,
    Verdict,
    describe_trial,
    judge,
    next_step,
    read_answers,
    read_shares,
    training_problems,
    try_policies,
)


def answer(text: str, *, error: str | None = None, unscorable: str | None = None, solves: bool = False) -> Candidate:
    outcome = ActionOutcome(team={}, local={}, solves=solves, done=False, error=error, unscorable=unscorable)
    tokens = {"tokens": (1,), "sampler_logprobs": (-1.0,)}
    return Candidate(**tokens, finish_reason="stop", text=text, reward=0.5, outcome=outcome)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (answer("R,R", solves=True), "right"),
        (answer("R,L"), "not right"),
        (answer("I think", error="no list"), "malformed"),
        (answer("<think>so</think> I think", error="no list"), "malformed"),
        (answer("", error="empty"), "no answer"),
        (answer(" \n\t", error="empty"), "no answer"),
        (answer("<think>so, it", error="thinking that never ends"), "no answer"),
        (answer("<think>so</think>", error="no answer follows"), "no answer"),
        (answer("", solves=True), "right"),
        (answer("print(1)", unscorable="the box failed"), "not scored"),
    ],
)
def test_an_answer_has_one_verdict(given: Candidate, verdict: Verdict) -> None:
    assert judge(given) == verdict


def episode(*given: Candidate) -> Episode:
    nodes = [
        Node(
            group=GroupKey(problem_id="p", episode=0, turn=turn, agent="ann"),
            policy="team",
            prompt_tokens=(1,),
            candidates=(each,),
            chosen=0,
        )
        for turn, each in enumerate(given)
    ]
    problem = Problem(problem_id="p", environment="plan_path", payload={})
    return Episode(problem=problem, episode=0, nodes=tuple(nodes), success=False)


def trial(agent: TriedAgent, *, num_solved: int = 0, remarks: tuple[str, ...] = ()) -> Trial:
    told = read_answers(episode(answer("x" * 900, error="\x1b[31mno list"), answer("R", solves=True)))
    return Trial(
        preset="mine",
        environment="plan_path",
        num_problems=1,
        num_solved=num_solved,
        agents={"ann": agent},
        answers=tuple(told),
        remarks=remarks,
    )


def test_shares_are_of_the_answers_and_rewards_include_ones_own() -> None:
    own = CustomReward(component="own.x", name="m:x", function=lambda _, node: [3.0 * len(node.candidates)], weight=2.0)
    told = read_answers(
        episode(answer("a", error="e"), answer("", error="e"), answer("b", solves=True), answer("c")), [own]
    )
    assert [each.reward for each in told] == [6.5] * 4
    assert read_shares("ann", told, "?", reads_instructions=True) == TriedAgent(
        prompt="?", reads_instructions=True, num_answers=4, right=0.25, malformed=0.25, no_answer=0.25
    )


def test_the_lines_hold_prompt_answers_verdicts_shares_and_the_next_step() -> None:
    agent = TriedAgent(
        prompt="Say\x1b[2J\nwhat", reads_instructions=True, num_answers=2, right=0.5, malformed=0.5, no_answer=0.0
    )
    text = "\n".join(describe_trial(trial(agent, remarks=("ann: show it",)), "mine.yaml"))
    assert "ann reads:\n    Say\\x1b[2J\n    what\n" in text
    assert r"malformed: '\x1b[31mno list', reward 0.5  'xxx" in text
    assert len(max(text.splitlines(), key=len)) < 300, "shortened"
    assert "ann: 50% right, 50% malformed, 0% no answer at all, of 2 answers" in text
    assert "0 of 1 problems solved, before any training\n! ann: show it" in text
    assert text.endswith("(replace: instead of the environment's instructions)")
    assert "troupe try mine.yaml --set 'agents.ann.prompt={extend:" in text
    assert next_step(trial(agent, num_solved=1), "mine.yaml") == "troupe train mine.yaml"
    compact = trial(agent.model_copy(update={"reads_instructions": False}), remarks=("ann: show it",))
    assert next_step(compact, "mine.yaml").startswith("troupe train mine.yaml; its policies read no instructions")


def test_a_policy_plays_untrained_without_services_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seen: list[float] = []
    config = preset_config("tiny", ["warm_start.max_steps=0"])
    begun: list[int] = []
    found = try_policies(
        config, num_problems=3, begin=begun.append, progress=lambda done, total: seen.append(done / total)
    )
    assert begun == [3]
    assert (found.num_problems, list(found.agents)) == (3, ["tool_agent", "plan_agent"])
    assert all(agent.num_answers >= 3 and agent.prompt for agent in found.agents.values())
    assert not any(agent.reads_instructions for agent in found.agents.values())
    assert found.remarks
    assert not [remark for remark in found.remarks if ".prompt" in remark]
    assert {each.problem for each in found.answers} == {
        problem.problem_id for problem in training_problems(scenario_of(config), 3)
    }
    assert seen == sorted(seen)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_tried_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="hybrid: its player presses buttons"):
        try_policies(preset_config("hybrid-tiny"))
    few = scenario_of(preset_config("stateful-eight-queens", ["environment.options={size: 6, num_free: 3}"]))
    assert len(training_problems(few, None)) == 16
    with pytest.raises(ConfigurationError, match="--problems 100: there are only 59 training problems"):
        training_problems(few, 100)
