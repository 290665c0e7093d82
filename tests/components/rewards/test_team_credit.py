"""The team term of a candidate, where its own outcome cannot tell and its continuation can."""

import re
from typing import Any

import pytest

from components.algorithms.grouping import episode_return
from components.config import RewardConfig, RolloutConfig, parse_config
from components.environments.registry import family, family_options
from components.rewards.base import Rubric
from components.rewards.credit import credit_rule
from components.rewards.overlong import Overlong
from components.rewards.own_rewards import CustomReward
from components.rewards.rubric import rubric_for
from components.rewards.score import score_shard
from components.rollout.router import RoleBinding, Router
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import NumberedProblem
from components.schema import ExecutionResult, PolicyVersion, RolloutShard
from components.session.scenario import scenario_of
from tests.components.generation.scripted import CharacterTokenizer
from tests.components.rewards.test_score_tools import ledger
from tests.components.rollout.toy_team import RecordingGenerator
from tests.components.sandbox.scripted import ScriptedSandbox, make_printed, sandbox_failed

VERSION = PolicyVersion(policy="team", step=0, weights_digest="d")
LETTERS = "".join(map(chr, range(32, 127))) + "\n"
MATH: Any = family("math")


def router_for(roles: tuple[str, ...], respond: Any) -> Router:
    engine = RecordingGenerator(VERSION, respond)
    engine._tokenizer = CharacterTokenizer(LETTERS)
    seat = RoleBinding(policy="team", prompt_format="compact", max_new_tokens=200)
    return Router({"team": engine}, seats=dict.fromkeys(roles, seat), versions={"team": VERSION})


def speak(prompt: str, seed: int) -> str:
    """The tool agent computes the expression or prints 7; the reasoner says what was printed."""
    if prompt.startswith("T"):
        expression = prompt[1:].partition(":")[0]
        return f"print({expression})" if seed % 2 else "print(7)"
    number = re.search(r"(-?\d+)>$", prompt)
    return number.group(1) if number else "0"


def calculator(program: str, stdin: str) -> ExecutionResult:
    return make_printed(str(eval(program.removeprefix("print"))))


def math_shard(
    credit: Any, run: Any = calculator, respond: Any = speak, num_problems: int = 6, max_turns: int = 1
) -> RolloutShard:
    options = family_options("math", {})
    problems = [MATH.problem(options, split="train", index=index, seed=0) for index in range(num_problems)]
    plan = ShardPlan(
        step=0, shard=0, seed=5, max_turns=max_turns, team_credit=credit,
        settings=RolloutConfig(num_problems=num_problems, group_size=6, max_failed_fraction=1.0),
        problems=tuple(NumberedProblem(problem=problem, occurrence=0) for problem in problems),
    )  # fmt: skip
    router, rubric = router_for(MATH.roles, respond), rubric_for(MATH, RewardConfig())
    return collect_shard(plan, family=MATH, router=router, rubric=rubric, tools=ledger(ScriptedSandbox(run)))


def team_terms(shard: RolloutShard, credit: Any) -> list[tuple[list[bool], list[float]]]:
    """For each first node of an episode, which programs are right, and the rewards less the local terms."""
    rubric = rubric_for(MATH, RewardConfig())
    idle = ScriptedSandbox(calculator)
    scored = score_shard(shard, family=MATH, rubric=rubric, credit=credit, tools=ledger(idle, shard.tools))
    assert idle.asked == {}, "the programs of continuations are in the record of the rollouts too"
    found = []
    for episode, rewards_N_K in zip(shard.episodes, scored.rewards_E_N_K, strict=True):
        first = episode.nodes[0].candidates
        terms = [
            reward - rubric.local(c.outcome)
            for c, reward in zip(first, rewards_N_K[0], strict=True)
            if reward is not None
        ]
        found.append(([c.outcome.local["correct"] == 1.0 for c in first], terms))
    return found


def test_the_team_term_of_a_first_agent_varies_in_its_group_with_turn_end_and_not_without() -> None:
    for is_right_K, terms_K in team_terms(math_shard("node"), "node"):
        assert len(set(is_right_K)) == 2
        assert terms_K == pytest.approx([0.0] * 6)
    for credit in ("turn_end", "episode_end"):
        for is_right_K, terms_K in team_terms(math_shard(credit), credit):
            assert terms_K == pytest.approx([float(is_right) for is_right in is_right_K])


def test_a_candidate_whose_continuation_cannot_be_scored_has_no_reward() -> None:
    broken: set[str] = set()

    def failing(program: str, stdin: str) -> ExecutionResult:
        return sandbox_failed("box gone") if program.strip() in broken else calculator(program, stdin)

    shard = two_programmers(failing, broken)
    scored = score_shard(
        shard,
        family=MATH,
        rubric=rubric_for(MATH, RewardConfig()),
        credit="episode_end",
        tools=ledger(ScriptedSandbox(failing), shard.tools),
        max_unscorable_fraction=1.0,
    )
    rewards = [reward for rewards_N_K in scored.rewards_E_N_K for reward in rewards_N_K[0]]
    assert 0 < sum(reward is None for reward in rewards) < len(rewards)
    cuts = [cut for episode in shard.episodes for cut in episode.cuts or ()]
    assert all("NothingScorable: no candidate could be scored: " in cut.error for cut in cuts)
    assert len(cuts) >= sum(reward is None for reward in rewards)


def two_programmers(run: Any, broken: set[str]) -> RolloutShard:
    """Two turns; of the second one's programs some break the sandbox."""

    def respond(prompt: str, seed: int) -> str:
        if prompt.startswith("T") and ";" in prompt:
            program = f"print({100 + seed % 20})"
            if seed % 5 == 0:
                broken.add(program)
            return program
        return speak(prompt, seed) if prompt.startswith("T") else "1"

    return math_shard("episode_end", run, respond, num_problems=4, max_turns=2)


def test_lengths_and_own_components_are_those_of_the_candidate_and_asked_of_no_continuation() -> None:
    shard, asked = math_shard("turn_end"), []

    def look(episode: Any, node: Any) -> list[float]:
        asked.append(node)
        assert node in episode.path
        return [10.0] * len(node.candidates)

    rubric = rubric_for(MATH, RewardConfig())
    own = CustomReward(component="own.look", name="x:look", function=look, weight=1.0)
    limits = dict.fromkeys(MATH.roles, 9)
    plain, more = (
        score_shard(
            shard,
            family=MATH,
            rubric=rubric,
            credit="turn_end",
            tools=ledger(ScriptedSandbox(calculator), shard.tools),
            overlong=overlong,
            own=functions,
        )
        for overlong, functions in ((None, ()), (Overlong(buffer=1, penalty=4.0, limits=limits), (own,)))
    )
    assert len(asked) == sum(node.is_trained_on for episode in shard.episodes for node in episode.nodes)
    assert more.own_E_N_K is not None
    num_long = 0
    for e, episode in enumerate(shard.episodes):
        for n, node in enumerate(episode.nodes):
            if not node.is_trained_on:
                assert (more.rewards_E_N_K[e][n], more.own_E_N_K["own.look"][e][n]) == ((None,), ())
                continue
            for candidate, before, after in zip(
                node.candidates, plain.rewards_E_N_K[e][n], more.rewards_E_N_K[e][n], strict=True
            ):
                is_long = len(candidate.tokens) > 8
                num_long += is_long
                assert before is not None
                assert after == pytest.approx(before + 10.0 - 4.0 * is_long)
    assert more.num_overlong == num_long > 0


PLAN_PATH: dict[str, Any] = {
    "num_steps": 1,
    "environment": {"name": "plan_path", "max_turns": 2},
    "agents": {"tool_agent": {"policy": "team"}, "plan_agent": {"policy": "team"}},
    "policies": {"team": {}},
    "rollout": {"num_problems": 4, "group_size": 4},
}


@pytest.mark.parametrize(
    ("mode", "advantage", "from_start"),
    [("tree", "at_grpo", False), ("nested", "at_grpo", False), ("independent", "grpo", True), ("single", "grpo", True)],
)
def test_only_whole_episodes_are_paid_from_their_start(mode: str, advantage: str, from_start: bool) -> None:
    rollout = {**PLAN_PATH["rollout"], "mode": mode}
    scenario = scenario_of(parse_config({**PLAN_PATH, "rollout": rollout, "algorithm": {"advantage": advantage}}))
    rubric = scenario.training_rubric
    assert (rubric.from_start, scenario.rubric.from_start) == (from_start, False)
    router = router_for(scenario.family.roles, lambda prompt, seed: "UDLR"[seed % 4] * (1 + seed % 2))
    shard = collect_shard(scenario.shard_plan(step=0, shard=0), family=scenario.family, router=router, rubric=rubric)
    scored = score_shard(shard, family=scenario.family, rubric=rubric, credit=credit_rule(scenario.config))
    if not from_start:
        return
    num_later = 0
    for episode, rewards_N_K in zip(shard.episodes, scored.rewards_E_N_K, strict=True):
        assert episode_return(episode, rewards_N_K) == episode.path[-1].candidates[0].reward
        env: Any = scenario.family.build(episode.problem)
        for node in episode.path:
            env.apply(node.group.agent, node.candidates[0].text)
        board = env.position.state
        away, start = board.game.distance(board.state), board.start_distance
        returned = 1.2 if episode.success else 0.2 * max(-1.0, 1 - away / start)
        assert episode_return(episode, rewards_N_K) == pytest.approx(returned)
        num_later += episode.path[-1].candidates[0].outcome.team_from_start is not None
    assert num_later > 3


def test_a_problem_has_a_signal_where_credit_gives_it_one() -> None:
    values = {**PLAN_PATH, "environment": {"name": "plan_path", "max_turns": 1}}

    def respond(prompt: str, seed: int) -> str:
        """All proposals and decisions of a tree are equal; those of continuations are drawn."""
        return "U" if prompt.startswith("T") or seed in compared else "UDLR"[seed % 4]

    compared: set[int] = set()
    for credit, expected in (("node", False), ("turn_end", True)):
        scenario = scenario_of(parse_config({**values, "rewards": {"team_credit": credit}}))
        plan = scenario.shard_plan(step=0, shard=0)
        router = router_for(scenario.family.roles, respond)
        generate = router.generate
        router.generate = lambda requests, temperature: (  # type: ignore[method-assign]
            compared.update(seed for each in requests if len(each.seeds_K) > 1 for seed in each.seeds_K),
            generate(requests, temperature=temperature),  # noqa: B023
        )[1]
        shard = collect_shard(plan, family=scenario.family, router=router, rubric=scenario.training_rubric)
        has_signal = scenario.refilling(step=0, shard=0).has_signal
        assert [has_signal([episode]) for episode in shard.episodes] == [expected] * 4


def test_the_weight_of_the_team_multiplies_the_credit() -> None:
    shard = math_shard("turn_end")
    weights = dict(rubric_for(MATH, RewardConfig()).weights)
    ones, threes = (
        score_shard(
            shard,
            family=MATH,
            rubric=Rubric(team_weight=weight, weights=weights),
            credit="turn_end",
            tools=ledger(ScriptedSandbox(calculator), shard.tools),
        )
        for weight in (1.0, 3.0)
    )
    terms = [term for _, terms_K in team_terms(shard, "turn_end") for term in terms_K]
    firsts = [[r for rewards_N_K in s.rewards_E_N_K for r in rewards_N_K[0]] for s in (ones, threes)]
    assert [b - a for a, b in zip(*firsts, strict=True) if a is not None and b is not None] == pytest.approx(
        [2 * term for term in terms]
    )
