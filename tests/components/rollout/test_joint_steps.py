"""Agents who act at once: one joint step for candidate k of each, in rollouts, rewards, evaluations and the contract."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from components.environments.base import JointStep, Tools
from components.environments.environment import Environment, ToolEnvironment
from components.environments.family import Family
from components.environments.play import Position
from components.environments.turn_orders import check_team
from components.errors import ConfigurationError, ExecutionFailed
from components.evaluation.answered_play import play_answers
from components.frozen import Frozen
from components.rewards.score import score_shard
from components.rollout.play import play
from components.schema import Episode, Execution, RolloutShard
from components.session.scenario import scenario_of
from flows.preflight.checks import check_credit
from tests.components.rollout.own_teams import Choir, router_of, rubric_of, rules_of, starts_of
from tests.components.rollout.toy_team import VERSION
from tests.sections import make_config
from troupe.testing import check_environment

POINTS = {("c", "c"): (3.0, 3.0), ("c", "d"): (0.0, 5.0), ("d", "c"): (5.0, 0.0), ("d", "d"): (1.0, 1.0)}


class Dilemma(Environment):
    """Ann and bob choose c or d at once for as many rounds as the problem says; a malformed choice is c."""

    roles = ("ann", "bob")
    turn_order = (("ann", "bob"),)
    weights: Mapping[str, float] = {"local.points": 1.0, "team.welfare": 0.0}
    max_answer_characters = 1
    alphabet = "abcdnox0123456789, '[]"

    def draw(self, options: Frozen, rng: Random) -> Mapping[str, Any]:
        return {"number": rng.randrange(10**6), "rounds": rng.randint(1, 3), "past": []}

    def observe(self, state: Any, agent: str) -> str:
        return f"{agent} {state['number']}, {state['past']}"

    def step_together(self, state: Any, answers: Mapping[str, str | None]) -> JointStep:
        choices = tuple(answers[agent] if answers[agent] in ("c", "d") else "c" for agent in self.roles)
        points = POINTS[choices]
        state["past"].append(list(choices))
        over = len(state["past"]) == state["rounds"]
        return JointStep(
            state=state,
            done=over,
            solved=over and choices == ("c", "c"),
            team={"welfare": sum(points)},
            local={agent: {"points": earned} for agent, earned in zip(self.roles, points, strict=True)},
        )


class Programmers(ToolEnvironment, Dilemma):
    """Their choices are printed by programs."""

    def tool_calls(self, state: Any, agent: str, answer: str) -> list[Execution]:
        return [Execution(program=answer, stdin=agent)]

    def step_together(self, state: Any, answers: Mapping[str, str | None], tools: Tools) -> JointStep:
        printed = {
            agent: tools.run(Execution(program=text or "", stdin=agent)).stdout for agent, text in answers.items()
        }
        return Dilemma.step_together(self, state, printed)


FAMILY = Family("dilemma", Dilemma())
CANDIDATES = {"ann": ["c", "d", "c", "x", "cc"], "bob": ["d", "d", "c", "c", "c"]}
"""Candidate k of both: (c, d), (d, d), (c, c), then x and one that is too long, which count as c, with c."""


def play_rounds(
    rounds: int, *, group_size: int = 5, max_turns: int = 4, family: Family = FAMILY, **tools: Any
) -> Episode:
    starts = [start for start in starts_of(family, 40) if start.problem.payload["rounds"] == rounds][:1]
    choir = Choir(lambda prompt: CANDIDATES[prompt[:3]][:group_size], FAMILY.alphabet(FAMILY.options_type()))
    rules = rules_of(family.turn_order, max_turns=max_turns, group_size=group_size)
    (episode,) = play(starts, rules, family=family, router=router_of(family, choir), rubric=rubric_of(family), **tools)
    return episode


def test_candidate_k_of_each_plays_with_candidate_k_of_the_others() -> None:
    episode = play_rounds(rounds=1)
    assert episode.error is None
    ann, bob = episode.nodes
    assert [c.outcome.local["points"] for c in ann.candidates] == [0.0, 1.0, 3.0, 3.0, 3.0]
    assert [c.outcome.local["points"] for c in bob.candidates] == [5.0, 1.0, 3.0, 3.0, 3.0]
    assert [c.outcome.error is None for c in ann.candidates] == [True, True, True, True, False]
    assert ann.candidates[4].outcome.local["malformed"] == 1.0
    assert "malformed" not in bob.candidates[4].outcome.local
    assert (ann.chosen, bob.chosen, ann.parallel_index, bob.parallel_index) == (2, 2, 0, 1)
    assert episode.success


def test_the_game_goes_on_from_the_joint_choice_and_rewards_are_recomputed_from_the_record() -> None:
    episode = play_rounds(rounds=3)
    assert (len(episode.nodes), [node.chosen for node in episode.nodes]) == (6, [2] * 6)
    assert episode.success
    shard = RolloutShard(step=0, shard=0, policy_versions={"p": VERSION}, episodes=(episode,))
    scored = score_shard(shard, family=FAMILY, rubric=rubric_of(FAMILY), turn_order=FAMILY.turn_order)
    assert scored.rewards_E_N_K[0] == tuple(tuple(c.reward for c in node.candidates) for node in episode.nodes)

    third = episode.nodes[2]
    other = replace(third, candidates=(replace(third.candidates[0], text="d"), *third.candidates[1:]))
    changed = replace(episode, nodes=(*episode.nodes[:2], other, *episode.nodes[3:]))
    with pytest.raises(AssertionError, match=r"ann.* candidate 0: replay gives"):
        score_shard(replace(shard, episodes=(changed,)), family=FAMILY, rubric=rubric_of(FAMILY))


class FailingTools:
    """Prints the program, and fails at one of bob's."""

    def __init__(self) -> None:
        self.prepared: list[Execution] = []

    def prepare(self, calls: Any) -> None:
        self.prepared += calls

    def run(self, execution: Execution) -> Any:
        if (execution.stdin, execution.program) == ("bob", "d"):
            raise ExecutionFailed("no box")
        return type("Result", (), {"stdout": execution.program})


def test_programs_of_all_are_told_before_and_a_failing_one_makes_its_joint_step_unscorable() -> None:
    family, tools = Family("programmers", Programmers()), FailingTools()
    episode = play_rounds(rounds=1, family=family, tools=tools)
    ann, bob = episode.nodes
    for node in (ann, bob):
        assert [c.outcome.unscorable for c in node.candidates] == ["no box", "no box", None, None, None]
    assert (ann.chosen, episode.success) == (2, True)
    assert {(call.stdin, call.program) for call in tools.prepared} >= {("ann", "c"), ("ann", "d"), ("bob", "d")}
    lost = play_rounds(rounds=1, group_size=2, family=family, tools=tools)
    assert lost.nodes == ()
    assert lost.error is not None
    assert "no candidate could be scored: no box" in lost.error


def test_scripts_play_at_once_and_the_contract_is_checked() -> None:
    problems = [FAMILY.problem(Frozen(), split="test", index=index, seed=0) for index in range(3)]
    ended = play_answers(
        problems,
        [lambda played, node: "c"] * 3,
        family=FAMILY,
        tools=FAMILY.referee().tools,
        rubric=rubric_of(FAMILY),
        turn_order=FAMILY.turn_order,
        max_turns=None,
    )
    assert [(each.success, each.reward) for each in ended if each] == [(True, 1.0 + 3.0)] * 3
    check_environment(Dilemma, num_problems=3)


def test_a_joint_step_that_breaks_the_contract_is_named() -> None:
    class Loose(Dilemma):
        def step_together(self, state: Any, answers: Mapping[str, str | None]) -> JointStep:
            return JointStep(state=state, local={"carol": {"points": 1.0}})

    family = Family("loose", Loose())
    with pytest.raises(ConfigurationError, match=r"local names \['carol'\], but \['ann', 'bob'\] acted"):
        family.referee().act_together(Position(state={}), {"ann": "c", "bob": "c"})

    class Neither(Environment):
        roles = ("ann",)

        def draw(self, options: Any, rng: Random) -> Mapping[str, Any]:
            return {}

        def observe(self, state: Any, agent: str) -> str:
            return ""

    with pytest.raises(ConfigurationError, match="define step"):
        check_team("neither", Neither)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("rollout.mode nested", {"rollout": {"mode": "nested", "branching": (2, 2)}}),
        ("rewards.team_credit turn_end", {"rewards": {"team_credit": "turn_end"}}),
    ],
)
def test_continuations_of_a_joint_step_are_refused_before_anything_starts(field: str, values: Any) -> None:
    environment = {"name": f"{__name__}:Dilemma", "max_turns": 3}
    config = make_config(environment, "ann", "bob", policies={"p": {"base": "tiny"}}, **values)
    with pytest.raises(ConfigurationError, match=rf"{field}: agents of .*Dilemma act at once"):
        check_credit(scenario_of(config))
