"""Third roles, teams that branch, agents side by side: who is asked what, what that earns, and what a replay says of it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.grouping import episode_return
from components.artifacts import codec
from components.artifacts.local import LocalArtifactStore
from components.config import RolloutConfig
from components.environments.base import Step
from components.environments.environment import Environment
from components.errors import ConfigurationError, EngineUnavailable
from components.evaluation.held_out import EvalPlan, EvalSetting, play_block
from components.evaluation.suite_play import join_plays
from components.identity import seed_for
from components.rewards.score import score_shard
from components.rollout.journal import Journal
from components.rollout.play import play
from components.rollout.rules import Start
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.shards import NumberedProblem
from components.rollout.statistics import keep_and_repair, last_agent_of
from components.schema import Episode, RolloutShard
from components.turn_order import BRANCHING, TurnOrder
from tests.components.rollout.own_teams import (
    Choir,
    Desk,
    Race,
    Votes,
    Wanderers,
    decode_prompt,
    family_of,
    rewards_of,
    router_of,
    rubric_of,
    rules_of,
    starts_of,
    sung,
)
from tests.components.rollout.toy_team import RecordingGenerator, ToyFamily, answer, toy_problems

CANDIDATES = {"ann": ("6", "5"), "bob": ("6", "4"), "judge": ("5", "6")}


def answer_prompt(prompt: str) -> Sequence[str]:
    return CANDIDATES[prompt.split()[0]]


def replay_rewards(environment: type[Environment], turn_order: TurnOrder, *episodes: Episode) -> Any:
    family = family_of(environment)
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=episodes)
    return score_shard(shard, family=family, rubric=rubric_of(family), turn_order=turn_order).rewards_E_N_K


# One after another


class Sum(Votes):
    """Three agents each add a number; the last one must make it 9."""

    roles = ("low", "middle", "high")
    turn_order: TurnOrder = ()
    weights: Mapping[str, float] = {"local.added": 0.1}

    def step(self, state: Any, agent: str, answer: str) -> Step:
        state["votes"].append(int(answer))
        is_nine = agent == "high" and sum(state["votes"]) == 9
        return Step(state=state, solved=is_nine, local={"added": float(answer)})


def test_a_third_role_sees_both_before_it_and_each_is_scored_on_its_own_candidates() -> None:
    lines = {"low": ("1", "2"), "middle": ("3", "1"), "high": ("4", "9")}
    episode, _ = sung(Sum, lambda prompt: lines[prompt.split()[0]], rules_of(Sum.roles))
    family = family_of(Sum)
    shown = ["low sees []", "middle sees [2]", "high sees [2, 3]"]
    assert [decode_prompt(node, family) for node in episode.nodes] == shown
    expected = [("low", (0.1, 0.2)), ("middle", (0.3, 0.1)), ("high", (1.4, 0.9))]
    assert rewards_of(episode) == [(agent, pytest.approx(rewards)) for agent, rewards in expected]
    assert episode.success
    assert replay_rewards(Sum, Sum.roles, episode) == (tuple(rewards for _, rewards in rewards_of(episode)),)


def test_a_role_that_acts_twice_in_a_turn_has_two_groups_with_seeds_of_their_own() -> None:
    lines = {"low": ("1", "2"), "middle": ("3", "1"), "high": ("0", "9")}
    order = ("low", "middle", "low")
    rules = rules_of(order, max_turns=2)
    episode, choir = sung(Sum, lambda prompt: lines[prompt.split()[0]], rules)
    groups = [node.group for node in episode.nodes]
    ends = ["t0/low", "t0/middle", "t0/low/1", "t1/low", "t1/middle", "t1/low/1"]
    assert [str(group).partition("/e0/")[2] for group in groups] == ends
    assert len({seed for group in groups for seed in rules.seeds(group)}) == 6 * 2
    first, again = rules.seeds(groups[0]), rules.seeds(groups[2])
    problem_id = episode.problem.problem_id
    assert first == tuple(seed_for(0, "rollout", 0, problem_id, 0, 0, "low", k) for k in range(2))
    assert again == tuple(seed_for(0, "rollout", 0, problem_id, 0, 0, "low", 1, k) for k in range(2))
    assert decode_prompt(episode.nodes[2], family_of(Sum)) == "low sees [2, 3]"
    assert replay_rewards(Sum, order, episode) == (tuple(rewards for _, rewards in rewards_of(episode)),)
    assert len(choir.calls) == 6


def test_an_order_that_is_the_roles_is_no_order_at_all() -> None:
    family = ToyFamily(3)
    starts = [Start(problem=each.problem, episode=0) for each in toy_problems(family, 4)]
    grown = [
        play(
            starts,
            rules_of(order, max_turns=2, handoff=0.5),
            family=family,
            router=router_of(family, RecordingGenerator()),  # type: ignore[arg-type]
            rubric=rubric_of(family),  # type: ignore[arg-type]
        )
        for order in (family.roles, tuple((role,) for role in family.roles))
    ]
    assert grown[0] == grown[1]


# Side by side


def test_agents_side_by_side_are_asked_at_once_and_see_none_of_each_other_s_answers() -> None:
    episode, choir = sung(Votes, answer_prompt, rules_of(Votes.turn_order))
    family = family_of(Votes)
    assert [len(call) for call in choir.calls] == [2, 1]
    shown = ["ann sees []", "bob sees []", "judge sees ['6', '6']"]
    assert [decode_prompt(node, family) for node in episode.nodes] == shown
    assert [node.parallel_index for node in episode.nodes] == [0, 1, 0]
    # Ann's share is the same in both of Bob's rewards, as the example of Environment.turn_order says.
    assert rewards_of(episode) == [("ann", (1.0, 0.0)), ("bob", (2.0, 1.0)), ("judge", (0.0, 1.0))]
    assert [node.chosen for node in episode.nodes] == [0, 0, 1]
    assert episode.success
    assert replay_rewards(Votes, Votes.turn_order, episode) == (((1.0, 0.0), (2.0, 1.0), (0.0, 1.0)),)


def test_one_role_may_answer_several_times_side_by_side() -> None:
    order = (("ann", "ann", "ann"), "judge")
    rules = rules_of(order)
    episode, choir = sung(Votes, lambda prompt: answer_prompt(prompt) if "judge" in prompt else ("5", "6"), rules)
    assert [len(call) for call in choir.calls] == [3, 1]
    assert [node.group.repeat for node in episode.nodes] == [0, 1, 2, 0]
    assert len({seed for request in choir.calls[0] for seed in request.seeds_K}) == 6
    assert decode_prompt(episode.nodes[3], family_of(Votes)) == "judge sees ['6', '6', '6']"
    assert [rewards for _, rewards in rewards_of(episode)[:3]] == [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]


def test_whoever_ends_the_episode_ends_it_for_those_beside_him_whose_answers_are_scored_all_the_same() -> None:
    order = (("ann", "bob", "judge"),)
    lines = {"ann": ("5", "4"), "bob": ("5", "6"), "judge": ("6", "1")}
    episode, _ = sung(Race, lambda prompt: lines[prompt.split()[0]], rules_of(order, max_turns=3))
    # Ann's 5 is entered; Bob's 6 ends the episode; the judge's answers are scored in the state that Bob's met, not after it.
    scored = [("ann", (1.0, 1.0)), ("bob", (2.0, 3.0)), ("judge", (3.0, 2.0))]
    assert rewards_of(episode) == scored
    assert (episode.success, episode.error, episode.final) == (True, None, 1)
    assert replay_rewards(Race, order, episode) == (tuple(rewards for _, rewards in scored),)
    rewards_N_K = [rewards for _, rewards in scored]
    assert episode_return(episode, rewards_N_K) == 3.0, "what Bob earned, who ended it"
    longer = replace(episode, nodes=(*episode.nodes, replace(episode.nodes[0], parallel_index=0)))
    with pytest.raises(AssertionError, match="was recorded where"):
        replay_rewards(Race, order, longer)


def test_in_whole_episodes_the_last_of_those_side_by_side_earns_what_the_episode_came_to() -> None:
    class Halves(Votes):
        roles = ("ann", "bob")
        turn_order = (("ann", "bob"),)

        def step(self, state: Any, agent: str, answer: str) -> Step:
            state["votes"].append(answer)
            return Step(state=state, solved=state["votes"] == ["4", "2"], team={"right": 0.0})

    lines = {"ann": ("4",), "bob": ("2",)}
    rules = rules_of(Halves.turn_order, group_size=1)
    episode, _ = sung(Halves, lambda prompt: lines[prompt.split()[0]], rules)
    assert (episode.success, rewards_of(episode)) == (True, [("ann", (0.0,)), ("bob", (1.0,))])
    assert episode_return(episode, [(0.0,), (1.0,)]) == 1.0


def test_of_proposals_side_by_side_one_that_solves_is_a_solving_proposal() -> None:
    class Shown(Votes):
        def step(self, state: Any, agent: str, answer: str) -> Step:
            state["votes"].append(answer)
            return Step(state=state, solved=answer == "6", done=False, team={"right": 0.0})

    lines = {"ann": ("6", "6"), "bob": ("5", "5"), "judge": ("5", "6")}
    episode, _ = sung(Shown, lambda prompt: lines[prompt.split()[0]], rules_of(Shown.turn_order))
    assert last_agent_of([episode]) == "judge"
    handed = keep_and_repair([episode], last_agent="judge")
    assert (handed.keep_rate, handed.repair_rate) == (0.5, None)
    assert keep_and_repair([episode], last_agent="bob").keep_rate is None, "Bob saw no proposal"


@pytest.mark.parametrize("mode", ["independent", "single"])
def test_the_baselines_play_teams_of_every_shape(mode: Any) -> None:
    for environment, order, acting in (
        (Votes, Votes.turn_order, ["ann", "bob", "judge"]),
        (Desk, BRANCHING, ["router", "left", "checker"]),
    ):
        family = family_of(environment)
        side = next(s for s in starts_of(family, 20) if s.problem.payload.get("side", "left") == "left")
        plan = ShardPlan(
            step=0, shard=0, seed=0, max_turns=1 if order else 3,
            settings=RolloutConfig(num_problems=1, group_size=2, mode=mode),
            problems=(NumberedProblem(problem=side.problem, occurrence=0),), turn_order=order,
        )  # fmt: skip
        choir = Choir(lambda prompt: ("left",) * 2, family.alphabet(family.options_type()))
        shard = collect_shard(plan, family=family, router=router_of(family, choir), rubric=rubric_of(family))
        agents = [[node.group.agent for node in episode.nodes] for episode in shard.episodes]
        assert agents == [acting if mode == "independent" else acting[-1:] * (1 if order else 3)] * 2
        played = order if mode == "independent" else acting[-1:]
        scored = score_shard(shard, family=family, rubric=rubric_of(family), turn_order=tuple(played))
        recorded = tuple(tuple(rewards for _, rewards in rewards_of(episode)) for episode in shard.episodes)
        assert scored.rewards_E_N_K == recorded


def test_an_evaluation_plays_the_order_and_reports_what_ended_the_episode() -> None:
    family = family_of(Race)
    lines = {"ann": ("5",), "bob": ("6",), "judge": ("1",)}
    choir = Choir(lambda prompt: lines[prompt.split()[0]], family.alphabet(family.options_type()))
    problems = tuple(start.problem for start in starts_of(family, 3))
    plan = EvalPlan(
        split="test", sampling="greedy", problems=problems, problems_per_block=2,
        turn_order=(("ann", "bob", "judge"),), max_turns=2, seed=0,
    )  # fmt: skip
    setting = EvalSetting(family=family, router=router_of(family, choir), rubric=rubric_of(family))
    play = join_plays([play_block(plan, block, setting) for block in plan.blocks])
    assert (play.solved_P_K, play.rewards_P_K) == (((True,),) * 3, ((3.0,),) * 3)
    assert play.agents["judge"].num_solving == 0
    assert (play.num_solving, play.num_not_solving) == (0, 0)


# Branching


def desk_lines(side: str, *, checker: Sequence[str] = ("left", "right")) -> Any:
    def lines(prompt: str) -> Sequence[str]:
        return checker if prompt.startswith("checker") else ("left", "right")

    return lines


def desk_start(side: str) -> Start:
    return next(s for s in starts_of(family_of(Desk), 20) if s.problem.payload["side"] == side)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_state_decides_who_is_next_and_every_answer_is_a_turn(side: str) -> None:
    rules = rules_of(BRANCHING, max_turns=6)
    episode, _ = sung(Desk, desk_lines(side), rules, [desk_start(side)])
    assert [(n.group.turn, n.group.agent) for n in episode.nodes] == [(0, "router"), (1, side), (2, "checker")]
    fits = (1.0, 0.0) if side == "left" else (0.0, 1.0)
    solved = tuple(2.0 * fit for fit in fits)
    assert [rewards for _, rewards in rewards_of(episode)] == [fits, fits, solved]
    assert episode.success
    assert replay_rewards(Desk, BRANCHING, episode) == ((fits, fits, solved),)


def test_a_loop_goes_on_until_the_turns_are_spent_and_none_ends_the_episode() -> None:
    wrong = desk_lines("left", checker=("never", "wrong"))
    episode, _ = sung(Desk, wrong, rules_of(BRANCHING, max_turns=6), [desk_start("left")])
    agents = ["router", "left", "checker", "left", "checker", "left"]
    assert [node.group.agent for node in episode.nodes] == agents
    assert (episode.success, episode.error) == (False, None)
    episode, _ = sung(Desk, lambda prompt: ("nobody",) * 2, rules_of(BRANCHING, max_turns=6), [desk_start("left")])
    assert [node.group.agent for node in episode.nodes] == ["router"]
    assert (episode.success, episode.error) == (False, None)


def test_random_handing_on_spares_the_last_of_the_roles_in_a_team_that_branches() -> None:
    starts = [start for start in starts_of(family_of(Desk), 40) if start.problem.payload["side"] == "left"]
    nodes = [
        node
        for start in starts
        for node in sung(Desk, desk_lines("left"), rules_of(BRANCHING, max_turns=4, handoff=1.0), [start])[0].nodes
    ]
    explored = {
        agent: {n.chosen_randomly for n in nodes if n.group.agent == agent} for agent in ("router", "left", "checker")
    }
    assert explored == {"router": {True}, "left": {True}, "checker": {False}}


def test_an_unknown_role_is_one_line_with_its_place() -> None:
    class Lost(Desk):
        def next_role(self, state: Any) -> str | None:
            return "chekcer"

    place = re.escape(__file__)
    told = rf"{place}:\d+: next_role\(\) returned 'chekcer', and 'chekcer' is no role; did you mean 'checker'\?"
    with pytest.raises(ConfigurationError, match=told) as caught:
        sung(Lost, desk_lines("left"), rules_of(BRANCHING))
    assert "\n" not in str(caught.value)

    class Failing(Desk):
        def next_role(self, state: Any) -> str | None:
            return str(state["rout"])

    with pytest.raises(ConfigurationError, match=rf"next_role\(\): {place}:\d+: KeyError: 'rout'"):
        sung(Failing, desk_lines("left"), rules_of(BRANCHING))

    class Numbered(Desk):
        def next_role(self, state: Any) -> Any:
            return ("router", 3)

    with pytest.raises(ConfigurationError, match=r"returned \('router', 3\), and 3 is no role"):
        sung(Numbered, desk_lines("left"), rules_of(BRANCHING))


def test_a_replay_on_another_path_is_an_error_that_names_both() -> None:
    episode, _ = sung(Desk, desk_lines("left"), rules_of(BRANCHING, max_turns=4), [desk_start("left")])
    router, clerk, checker = episode.nodes
    skipped = replace(episode, nodes=(router, replace(checker, group=replace(checker.group, turn=1))))
    told = r"t1/checker was recorded where \['own-\w+/e0/t1/left'\] are next"
    with pytest.raises(AssertionError, match=told):
        replay_rewards(Desk, BRANCHING, skipped)
    after_the_end = replace(episode, nodes=(*episode.nodes, replace(clerk, group=replace(clerk.group, turn=3))))
    with pytest.raises(AssertionError, match=r"t3/left was recorded where \[\] are next"):
        replay_rewards(Desk, BRANCHING, after_the_end)
    voted_alone, _ = sung(Votes, answer_prompt, rules_of(("ann", "bob", "judge")))
    with pytest.raises(AssertionError, match=r"t0/ann was recorded where"):
        replay_rewards(Votes, Votes.turn_order, replace(voted_alone, nodes=voted_alone.nodes[:1]))
    failed = replace(voted_alone, nodes=voted_alone.nodes[:1], error="bob observes: broke")
    assert replay_rewards(Votes, Votes.turn_order, failed) == (((1.0, 0.0),),)


# Of all shapes

wanderings = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "max_turns": st.integers(1, 6),
        "group_size": st.integers(1, 4),
        "handoff": st.sampled_from([0.0, 0.5]),
        "order": st.sampled_from([BRANCHING, (("a", "b", "c"),), ("a", ("b", "a"), "c"), ("c", "a", "c")]),
    }
)


class Backwards(RecordingGenerator):
    """Answers the requests of a call from the last to the first."""

    def generate(self, requests: Any, version: Any) -> Any:
        return super().generate(tuple(reversed(requests)), version)[::-1]


def wander(team: Any, engine: type[RecordingGenerator] = RecordingGenerator, *, num: int = 3) -> tuple[Episode, ...]:
    class Ordered(Wanderers):
        turn_order = team["order"]

    family = family_of(Ordered)
    family.name = "wanderers"
    rules = replace(
        rules_of(team["order"], max_turns=team["max_turns"], group_size=team["group_size"], handoff=team["handoff"]),
        seed=team["seed"],
    )
    choir = Choir(lambda prompt: ("",), family.alphabet(family.options_type()))
    made = engine(respond=answer)
    made._tokenizer = choir.tokenizer
    starts = starts_of(family, num, team["seed"])
    return play(
        starts, rules, family=family, router=router_of(family, made, max_new_tokens=8), rubric=rubric_of(family)
    )


@settings(max_examples=80, deadline=None)
@given(wanderings)
def test_a_replay_gives_the_rewards_of_the_rollout_along_the_same_path(team: dict[str, Any]) -> None:
    episodes = wander(team)
    shard = RolloutShard(step=0, shard=0, policy_versions={}, episodes=episodes)
    stored = codec.decode(codec.encode(shard), RolloutShard)
    family = family_of(Wanderers)
    scored = score_shard(stored, family=family, rubric=rubric_of(family), turn_order=team["order"])
    assert scored.rewards_E_N_K == tuple(tuple(r for _, r in rewards_of(episode)) for episode in episodes)
    for episode in episodes:
        assert len({node.group for node in episode.nodes}) == len(episode.nodes)


@settings(max_examples=60, deadline=None)
@given(wanderings)
def test_the_order_in_which_nodes_are_answered_changes_nothing(team: dict[str, Any]) -> None:
    together = wander(team)
    assert wander(team, Backwards) == together
    assert tuple(wander(team, num=n + 1)[n] for n in range(3)) == together


@settings(max_examples=60, deadline=None)
@given(wanderings)
def test_every_prompt_shows_the_answers_before_its_phase_and_none_beside_it(team: dict[str, Any]) -> None:
    environment = Wanderers()
    for episode in wander(team):
        state: Any = {**episode.problem.payload, "history": []}
        before = dict(state)
        for place, node in enumerate(episode.nodes):
            if node.parallel_index == 0:
                before = {**state, "history": list(state["history"])}
                asked = environment.next_role(before) if not team["order"] else None
                beside = [n.group.agent for n in episode.nodes[place:] if n.group.turn == node.group.turn]
                assert asked is None or list((asked,) if isinstance(asked, str) else asked) == beside
            assert decode_prompt(node, family_of(Wanderers)) == environment.observe(before, node.group.agent)
            if episode.final is not None and place <= episode.final:
                state["history"].append([node.group.agent, node.candidates[node.chosen].text])


@pytest.mark.parametrize("order", [(("a", "b", "c"), "a"), BRANCHING])
def test_a_shard_that_is_stopped_between_agents_side_by_side_resumes_to_the_same(order: Any, tmp_path: Path) -> None:
    class Stopping(RecordingGenerator):
        def __init__(self, last: int) -> None:
            super().__init__(respond=answer)
            self._tokenizer = Choir(lambda prompt: ("",), family.alphabet(family.options_type())).tokenizer
            self._last = last

        def generate(self, requests: Any, version: Any) -> Any:
            if len(self.calls) == self._last:
                raise EngineUnavailable("stopped here")
            return super().generate(requests, version)

    family = family_of(Wanderers)
    plan = ShardPlan(
        step=0, shard=0, seed=0, max_turns=3,
        settings=RolloutConfig(num_problems=4, group_size=2, problems_per_block=2),
        problems=tuple(NumberedProblem(problem=s.problem, occurrence=0) for s in starts_of(family, 4)),
        turn_order=order,
    )  # fmt: skip
    collected = partial(collect_shard, plan, family=family, rubric=rubric_of(family))
    whole = Stopping(last=10**9)
    expected = collected(router=router_of(family, whole))
    assert any(node.parallel_index for episode in expected.episodes for node in episode.nodes)
    num_calls = []
    for last in range(len(whole.calls)):
        store = LocalArtifactStore(tmp_path / str(last))
        with pytest.raises(EngineUnavailable):
            collected(router=router_of(family, Stopping(last)), journal=Journal(store, "runs/r/a"))
        resumed = Stopping(last=10**9)
        assert collected(router=router_of(family, resumed), journal=Journal(store, "runs/r/a")) == expected
        num_calls.append(len(resumed.calls))
    assert num_calls[0] == len(whole.calls) > num_calls[-1], "what was recorded is not asked for again"
