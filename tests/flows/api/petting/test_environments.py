"""Environments that are played answer by answer."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from components.environments.base import NO_TOOLS
from components.errors import ConfigurationError, ExecutionFailed
from flows.api.petting.config.code import single_policy
from flows.api.petting.configs import DOMAINS, get_config
from flows.api.petting.multi_agent_env import (
    CodeEnv,
    GamesEnv,
    MathEnv,
    PlanPathEnv,
    SearchEnv,
    SokobanEnv,
    StatefulEnv,
    SudokuEnv,
)
from flows.api.petting.multi_agent_env.base import Agent, Env, EnvBatch, Observed

CLASSES: Mapping[str, type[Env]] = {
    "code": CodeEnv, "math": MathEnv, "search": SearchEnv, "stateful": StatefulEnv, "games": GamesEnv,
}  # fmt: skip


class Expert:
    """Answers rightly."""

    def __init__(self, env: Env) -> None:
        self.env = env

    def act(self, obs: Observed) -> str:
        return self.env.family.expert_action(self.env.playthrough.position, obs["agent"])


class Idle:
    """Says nothing."""

    def act(self, obs: Observed) -> str:
        return ""


def play(env: Env, agent: Agent) -> tuple[list[float], dict[str, Any]]:
    """The rewards of an episode, and the facts at its end; the loop is the documented one."""
    obs = env.reset()
    rewards, done, info = [], False, {}
    while not done:
        action = agent.act(obs)
        obs, reward, done, info = env.step(action)
        rewards.append(reward)
    return rewards, info


@pytest.mark.parametrize(
    ("domain", "name"), [(domain, name) for domain, environments in DOMAINS.items() for name in environments]
)
@pytest.mark.parametrize("end", ["_single_policy", "-l0"])
def test_the_expert_solves_every_environment_and_silence_none(domain: str, name: str, end: str) -> None:
    config = get_config(f"{domain}{end}", env_name=name)
    with CLASSES[domain](config) as env:
        rewards, info = play(env, Expert(env))
        assert info["success"]
        assert len(rewards) == (1 if end == "-l0" else 2)
        assert min(rewards) > 0
        rewards, info = play(env, Idle())
        assert not info["success"]
        assert info["truncated"]
        assert max(rewards) <= 0
        assert len(rewards) == config["max_turns"] * (1 if end == "-l0" else 2)


def test_each_agent_sees_what_those_before_it_did() -> None:
    with CodeEnv(single_policy.get_config()) as env:
        expert, obs = Expert(env), env.reset()
        assert isinstance(env, Env)
        assert (obs["agent"], obs["turn"]) == ("tester", 0)
        assert obs["instructions"]
        tests = expert.act(obs)
        seen, _, done, info = env.step(tests)
        assert (seen["agent"], seen["turn"], done) == ("coder", 0, False)
        assert tests in seen["state"]
        assert tests not in obs["state"]
        after, reward, done, info = env.step("nonsense(")
        assert (after["agent"], after["turn"], done, info["success"]) == ("tester", 1, False, False)
        assert reward < 0 or info["agents"]["coder"]["error"] is not None
        assert env.playthrough.render(color=False)


def test_the_data_of_an_agent_are_what_it_saw_answered_and_earned() -> None:
    env = GamesEnv()
    expert, first = Expert(env), env.reset()
    assert {role: (data.current_prompt, data.current_action) for role, data in env.agents.items()} == {
        "tool_agent": (first, None),
        "plan_agent": (None, None),
    }
    answer = expert.act(first)
    second, tool_reward, _, _ = env.step(answer)
    final, plan_reward, _, _ = env.step(expert.act(second))
    tool, plan = env.agents["tool_agent"], env.agents["plan_agent"]
    assert (tool.current_prompt, tool.current_action, tool.agent_reward) == (first, answer, tool_reward)
    assert (plan.current_prompt, plan.agent_reward, plan.success, plan.done) == (final, plan_reward, True, True)
    assert (env.reset(0), env.agents["plan_agent"].current_action) == (first, None)


def test_a_batch_begins_as_many_episodes_of_each_problem_as_it_is_told() -> None:
    config = get_config("games_single_policy")
    with EnvBatch([8, 9], [3, 1], range(4), 2, 5, config, mode="validate") as batch:
        assert [(env.env_idx, env.rollout_idx) for env in batch.env_list] == [(8, 0), (8, 1), (9, 2), (9, 3)]
        alone = GamesEnv(config, split="test", max_turns=5)
        seen = [alone.reset(index) for index in (3, 3, 1, 1)]
        assert [env.agents["tool_agent"].current_prompt for env in batch.env_list] == seen
        one, other, *_ = batch.env_list
        one.step("")
        assert [env.agents["tool_agent"].current_action for env in (one, other)] == ["", None]
        assert [one.step("")[2] for _ in range(2 * 5 - 1)] == [False] * 8 + [True], "max_turns is that of the batch"
    with pytest.raises(ConfigurationError, match=r"they have \(2, 2, 3\) numbers; .* samples \(2\) times"):
        EnvBatch([0, 1], [0, 1], range(3), 2, 5, config)


def test_environments_of_a_batch_share_one_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    with EnvBatch([0], [0], range(2), 2, 3, "math_single_policy") as batch:
        one, other = batch.env_list
        assert one._toolbox is other._toolbox
        closed: list[int] = []
        monkeypatch.setattr(one._toolbox, "close", lambda: closed.append(1))
    assert closed == [1]


def test_the_reward_is_the_weighted_sum_of_its_parts() -> None:
    config = get_config("games_single_policy", alpha=0.5)
    with GamesEnv(config) as env:
        obs = env.reset()
        expert = Expert(env)
        weights = env.family.default_weights
        for _ in range(2):
            obs, reward, _, info = env.step(expert.act(obs))
            (parts,) = info["agents"].values()
            team = sum(weights[f"team.{name}"] * value for name, value in parts["team"].items())
            local = sum(weights[f"local.{name}"] * value for name, value in parts["local"].items())
            assert reward == parts["reward"] == pytest.approx(0.5 * team + local)
            assert team > 0


def test_problems_go_on_and_are_pure_functions_of_seed_split_and_number() -> None:
    env, other, held_out = PlanPathEnv(), PlanPathEnv(), PlanPathEnv(split="test")
    first, second = env.reset(), env.reset()
    assert first["state"] != second["state"]
    assert other.reset(1) == second
    assert other.reset(0) == first
    assert env.reset()["state"] not in (first["state"], second["state"])
    assert held_out.reset(0)["state"] != first["state"]
    assert PlanPathEnv({"config_name": "games-l1", "seed": 1}).reset(0) == GamesEnv({"seed": 1}).reset(0)
    assert PlanPathEnv(seed=1).reset(0)["state"] != first["state"]
    assert PlanPathEnv(env_options={"size": 8}).reset()["state"].count("\n") == 8


@pytest.mark.parametrize(("made", "name"), [(PlanPathEnv, "plan_path"), (SokobanEnv, "sokoban"), (SudokuEnv, "sudoku")])
def test_a_game_has_a_class_of_its_own(made: type[Env], name: str) -> None:
    for env in (made(), made({"max_turns": 3}), made(get_config("stateful-l2", env_name=name))):
        env.reset()
        assert env.playthrough.problem.environment == name
    with pytest.raises(ConfigurationError, match=f"{made.__name__} plays {name}"):
        made("stateful_single_policy")


def test_what_an_agent_writes_never_raises_and_what_a_caller_does_wrong_does() -> None:
    env = GamesEnv()
    with pytest.raises(ConfigurationError, match=r"call reset\(\) first"):
        env.step("U")
    env.reset()
    _, reward, _, info = env.step("\ud800" * 5)
    assert info["agents"]["tool_agent"]["error"]
    assert reward <= 0
    with pytest.raises(ConfigurationError, match="the answer of plan_agent is list; give it as text"):
        env.step(["U"])  # type: ignore[arg-type]
    done = False
    while not done:
        _, _, done, _ = env.step("")
    with pytest.raises(ConfigurationError, match=r"the episode is over; call reset\(\)"):
        env.step("")
    assert not env.reset(0)["turn"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CodeEnv(get_config("math_single_policy")),
            "its environment is 'math', and CodeEnv plays code; pass a",
        ),
        (lambda: GamesEnv(env_options={"sise": 5}), "environment.options.sise: unknown key.*did you mean 'size'"),
        (lambda: GamesEnv(batch=2), r"config\['batch'\]: unknown key"),
        (lambda: GamesEnv().reset(-1), "problem -1: problems count from 0"),
    ],
)
def test_a_wrong_environment_names_what_is_wrong(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


VOTES = """
environment: {name: "tests.components.rollout.own_teams:Votes", max_turns: 1}
num_steps: 1
agents: {ann: {policy: p}, bob: {policy: p}, judge: {policy: p}}
policies: {p: {}}
"""


def test_agents_side_by_side_see_the_same_state(tmp_path: Path) -> None:
    (tmp_path / "votes.yaml").write_text(VOTES)
    env = Env(str(tmp_path / "votes.yaml"))
    assert env.reset()["state"] == "ann sees []"
    obs, reward, done, info = env.step("6")
    assert (obs["state"], reward, done, info["agents"]) == ("bob sees []", 0.0, False, {})
    obs, reward, done, info = env.step("4")
    assert obs["state"] == "judge sees ['6', '4']"
    assert {agent: each["reward"] for agent, each in info["agents"].items()} == {"ann": 1.0, "bob": 1.0}
    assert reward == 2.0
    _, _, done, info = env.step("6")
    assert (done, info["success"]) == (True, True)


def test_a_failure_of_the_sandbox_is_no_answer_s_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(type(NO_TOOLS)):  # type: ignore[misc]
        def run(self, execution: Any) -> Any:
            raise ExecutionFailed("no box")

    env = MathEnv()
    monkeypatch.setattr(env._toolbox, "tools", Broken)
    obs = env.reset()
    program = Expert(env).act(obs)
    for _ in range(2):
        with pytest.raises(ExecutionFailed, match="no box"):
            env.step(program)
    assert env.playthrough.referee.rules.roles[0] == obs["agent"]


def test_the_sandbox_ends_with_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    env, closed = MathEnv(), []
    env.reset()
    toolbox = env._toolbox
    box = type("Box", (), {"close": lambda self: closed.append(1)})()
    toolbox._sandbox = box
    with env:
        assert not closed
    assert closed == [1]
    toolbox._sandbox = box
    del env
    assert closed == [1, 1]
