"""Candidates continued by the later agents, and the team term taken from where they lead."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.artifacts import codec
from components.environments.environment import Environment
from components.errors import TooManyUnscorable
from components.rewards.base import Rubric
from components.rewards.score import score_shard
from components.rollout.play import play
from components.rollout.rules import SamplingRules, Start
from components.rollout.sampler import ShardPlan, collect_shard
from components.rollout.statistics import episode_metrics, reward_metrics
from components.schema import FailedBranch, RolloutShard
from tests.components.rollout.chains import (
    check_chains,
    end_in_a_tree,
    fork_of,
    path_of,
    shape_of,
    team_of_leaves,
)
from tests.components.rollout.own_teams import (
    Race,
    Speaker,
    Votes,
    Wanderers,
    family_of,
    router_of,
    rubric_of,
    rules_of,
    starts_of,
    sung,
)
from tests.components.rollout.toy_team import (
    RUBRIC,
    VERSION,
    RecordingGenerator,
    ToyFamily,
    answer,
    toy_plan,
    toy_problems,
    toy_router,
)

FAMILY = ToyFamily(3)
CREDITS: Any = ("turn_end", "episode_end")
LAWS = {"done_rate": 0.05, "levels": 10}


def make_plan(credit: Any, *, mode: Any = "tree", num_problems: int = 4, laws: Any = LAWS, **plan: Any) -> ShardPlan:
    settings = {"group_size": 4, "mode": mode, "max_failed_fraction": 1.0, **plan.pop("settings", {})}
    return toy_plan(FAMILY, num_problems, laws, {"step": 2, "team_credit": credit, **plan}, **settings)


def shard(credit: Any, engine: Any = None, **plan: Any) -> RolloutShard:
    return collect_shard(make_plan(credit, **plan), family=FAMILY, router=toy_router(FAMILY, engine), rubric=RUBRIC)


def toy_rules(credit: Any, max_turns: int = 2, group_size: int = 3, handoff: float = 0.0) -> SamplingRules:
    rules = rules_of(FAMILY.roles, max_turns=max_turns, group_size=group_size, handoff=handoff)
    return replace(rules, team_credit=credit)


@pytest.mark.parametrize("credit", CREDITS)
def test_each_candidate_that_later_agents_can_continue_is_continued_by_one_answer_of_each(credit: Any) -> None:
    for episode in shard(credit, laws={"done_rate": 0.0}).episodes:
        nodes = episode.nodes
        below = {node.parent: n for n, node in enumerate(nodes) if node.parent is not None}
        for n, node in enumerate(nodes):
            if node.parent is not None:
                assert (len(node.candidates), node.is_trained_on, node.chosen) == (1, False, 0)
                continue
            assert (len(node.candidates), node.is_trained_on) == (4, True)
            left = {"agent0": 2, "agent1": 1, "agent2": 0}[node.group.agent]
            left += 3 * (1 - node.group.turn) if credit == "episode_end" else 0
            for k in range(4):
                at, length = (n, k), 0
                while at in below:
                    at, length = (below[at], 0), length + 1
                assert length == left, (node.group, k)


@pytest.mark.parametrize("credit", CREDITS)
def test_the_selected_branch_is_that_of_play_without_continuations_in_as_many_engine_calls(credit: Any) -> None:
    engines = {each: RecordingGenerator() for each in ("node", credit)}
    plain, continued = (shard(each, engine) for each, engine in engines.items())
    assert [path_of(episode) for episode in continued.episodes] == [path_of(episode) for episode in plain.episodes]
    assert [(e.success, e.final is None) for e in continued.episodes] == [
        (e.success, e.final is None) for e in plain.episodes
    ]
    assert len(engines[credit].calls) == len(engines["node"].calls)
    assert [e.num_generated_tokens for e in continued.episodes] > [e.num_generated_tokens for e in plain.episodes]


@settings(max_examples=20, deadline=None)
@given(
    credit=st.sampled_from(CREDITS),
    max_turns=st.integers(1, 3),
    group_size=st.integers(1, 4),
    handoff=st.sampled_from([0.0, 0.5]),
    seed=st.integers(0, 10**6),
    done_rate=st.sampled_from([0.0, 0.1, 0.4]),
)
def test_a_tree_with_continuations_replays_from_scratch_to_equal_rewards(
    credit: Any, max_turns: int, group_size: int, handoff: float, seed: int, done_rate: float
) -> None:
    starts = [Start(problem=e.problem, episode=0) for e in toy_problems(FAMILY, 2, seed, done_rate=done_rate)]
    router = toy_router(FAMILY)
    rules = toy_rules(credit, max_turns, group_size, handoff)
    episodes = play(starts, rules, family=FAMILY, router=router, rubric=RUBRIC)
    alone = [play([start], rules, family=FAMILY, router=router, rubric=RUBRIC)[0] for start in starts]
    assert episodes == tuple(alone)
    check_credit(episodes, FAMILY, router, RUBRIC, credit, FAMILY.roles)


def check_credit(episodes: Any, family: Any, router: Any, rubric: Rubric, credit: Any, turn_order: Any) -> None:
    """Each episode against its chains, and the reward stage against the ends found from them."""
    recorded = RolloutShard(step=0, shard=0, policy_versions={"p": VERSION}, episodes=tuple(episodes))
    scored = score_shard(recorded, family=family, rubric=rubric, credit=credit, turn_order=turn_order)
    for episode, rewards_N_K in zip(episodes, scored.rewards_E_N_K, strict=True):
        check_chains(episode, family, router)
        for n, (node, rewards_K) in enumerate(zip(episode.nodes, rewards_N_K, strict=True)):
            if not node.is_trained_on:
                assert rewards_K == (None,)
                continue
            for k, candidate in enumerate(node.candidates):
                team = replace(rubric, from_start=credit != "turn_end")
                value = team.team(end_in_a_tree(episode, n, k))
                if credit == "leaves":
                    value = team_of_leaves(episode, n, k, team)
                assert rewards_K[k] == pytest.approx(rubric.team_weight * value + rubric.local(candidate.outcome))


@pytest.mark.parametrize("environment", [Votes, Race, Wanderers])
@pytest.mark.parametrize("credit", CREDITS)
def test_agents_side_by_side_and_teams_that_branch_are_continued_where_they_stand(
    environment: type[Environment], credit: Any
) -> None:
    family = family_of(environment)
    engine = Speaker(family, lambda prompt, seed: str(4 + seed % 3))
    router = router_of(family, engine, max_new_tokens=4)
    order: Any = family.turn_order
    rules = replace(rules_of(order, max_turns=3, group_size=3), team_credit=credit)
    episodes = play(starts_of(family, 6), rules, family=family, router=router, rubric=rubric_of(family))
    assert any(node.is_continuation and node.parallel_index for episode in episodes for node in episode.nodes)
    check_credit(episodes, family, router, rubric_of(family), credit, order)


def test_the_continuation_of_an_agent_side_by_side_asks_the_others_in_the_state_before_all_of_them() -> None:
    lines = {"ann": ["6", "5"], "bob": ["5", "4"], "judge": ["1", "1"]}
    rules = replace(rules_of(Votes.turn_order), team_credit="turn_end")
    episode, choir = sung(Votes, lambda prompt: lines[prompt.split()[0]], rules)
    assert shape_of(episode)[:2] == [(0, "ann", None, 2), (0, "bob", None, 2)]
    assert [(agent, parent) for _, agent, parent, _ in shape_of(episode)[2:]] == [
        ("judge", None),
        ("bob", (0, 0)),
        ("bob", (0, 1)),
        ("judge", (1, 0)),
        ("judge", (1, 1)),
        ("judge", (3, 0)),
        ("judge", (4, 0)),
    ]
    bob, of_first = episode.nodes[1], episode.nodes[3]
    assert (of_first.prompt_tokens, of_first.parallel_index) == (bob.prompt_tokens, 1)
    assert len(choir.calls) == 3


def test_equal_candidates_are_continued_each_by_its_own_answer() -> None:
    rules = replace(rules_of(("ann", "judge")), team_credit="turn_end", group_size=8)
    family = family_of(Votes)
    engine = Speaker(family, lambda prompt, seed: "6" if prompt.startswith("ann") else str(seed % 10**6))
    (episode,) = play(
        starts_of(family), rules, family=family, router=router_of(family, engine), rubric=rubric_of(family)
    )
    continued = [node.candidates[0].text for node in episode.nodes if node.is_continuation]
    assert len(set(continued)) == len(continued) == 8


def test_failures_of_continuations_cost_the_credit_of_their_candidates_and_nothing_else() -> None:
    laws = {"done_rate": 0.0, "failure_rate": 0.05}
    plain, continued = shard("node", laws=laws, num_problems=12), shard("episode_end", laws=laws, num_problems=12)
    assert [(path_of(e), e.error) for e in continued.episodes] == [(path_of(e), e.error) for e in plain.episodes]
    cuts = [(e, cut) for e in continued.episodes for cut in e.cuts or ()]
    assert {cut.error.split(":")[1] for _, cut in cuts} == {" RuntimeError", " LookupError"}
    again = codec.decode(codec.encode(continued), RolloutShard)
    scored = score_shard(
        again, family=FAMILY, rubric=RUBRIC, credit="episode_end", turn_order=FAMILY.roles, max_unscorable_fraction=1.0
    )
    expected = {
        (e, *(fork_of(episode, cut.parent[0]) or cut.parent))
        for e, episode in enumerate(continued.episodes)
        for cut in episode.cuts or ()
    }
    unscored = {
        (e, n, k)
        for e, (episode, rewards_N_K) in enumerate(zip(continued.episodes, scored.rewards_E_N_K, strict=True))
        for n, (node, rewards_K) in enumerate(zip(episode.nodes, rewards_N_K, strict=True))
        for k, reward in enumerate(rewards_K)
        if node.is_trained_on and reward is None
    }
    assert unscored == expected
    assert len(unscored) == len(cuts) > 3
    assert episode_metrics(continued.episodes)["rollout/num_cut_lines"] == len(cuts)
    assert reward_metrics([continued], [scored])["reward/unscorable_frac"] == pytest.approx(
        len(unscored) / sum(len(n.candidates) for e in continued.episodes for n in e.path)
    )
    with pytest.raises(TooManyUnscorable, match=f"^{len(unscored)} of .* or at those of their continuations"):
        score_shard(continued, family=FAMILY, rubric=RUBRIC, credit="episode_end")


def test_metrics_count_tokens_of_all_nodes_and_rates_of_none_of_the_continuations() -> None:
    plain, continued = shard("node"), shard("episode_end")
    before, after = episode_metrics(plain.episodes), episode_metrics(continued.episodes)
    costs = ("rollout/num_candidates", "rollout/num_generated_tokens")
    assert all(after[name] > before[name] for name in costs)
    assert {k: v for k, v in after.items() if k not in (*costs, "rollout/num_cut_lines")} == {
        k: v for k, v in before.items() if k not in costs
    }
    everything = [c for e in continued.episodes for n in e.nodes for c in n.candidates]
    assert after["rollout/num_candidates"] == len(everything)
    assert after["rollout/num_generated_tokens"] == sum(len(c.tokens) for c in everything)


def test_the_shuffled_control_gives_no_reward_to_a_continuation() -> None:
    played = shard("turn_end")
    scored = score_shard(played, family=FAMILY, rubric=RUBRIC, credit="turn_end")
    control = score_shard(played, family=FAMILY, rubric=RUBRIC, credit="turn_end", shuffle_seed=5)
    assert control != scored
    for episode, rewards_N_K in zip(played.episodes, control.rewards_E_N_K, strict=True):
        for node, rewards_K in zip(episode.nodes, rewards_N_K, strict=True):
            assert (None in rewards_K) == node.is_continuation


def test_a_continuation_that_the_replay_contradicts_names_its_group() -> None:
    played = shard("turn_end", laws={"done_rate": 0.0})
    episode = played.episodes[0]
    n = next(n for n, node in enumerate(episode.nodes) if node.is_continuation)
    node = episode.nodes[n]
    for changed, told in (
        (replace(node, candidates=(replace(node.candidates[0], text="kkk"),)), "candidate 0: replay gives"),
        (replace(node, group=replace(node.group, agent="agent2")), "was recorded where .*agent1.* are next"),
        (replace(node, group=replace(node.group, turn=1)), "was recorded where .*t0/agent1.* are next"),
        (replace(node, parent=(n + 3, 0)), "which is no earlier candidate"),
    ):
        nodes = (*episode.nodes[:n], changed, *episode.nodes[n + 1 :])
        broken = replace(played, episodes=(replace(episode, nodes=nodes),))
        with pytest.raises(AssertionError, match=told):
            score_shard(broken, family=FAMILY, rubric=RUBRIC, credit="turn_end", turn_order=FAMILY.roles)


def test_a_cut_line_gives_no_credit_even_where_its_candidate_looks_like_an_end() -> None:
    played = shard("turn_end", laws={"done_rate": 0.0}, num_problems=1)
    (episode,) = played.episodes
    last = max(n for n in range(len(episode.nodes)) if fork_of(episode, n) == (0, 2))
    ended = FailedBranch(parent=(last, 0), error="broke")
    cut = replace(played, episodes=(replace(episode, cuts=(ended,)),))
    scored = score_shard(cut, family=FAMILY, rubric=RUBRIC, credit="turn_end", max_unscorable_fraction=1.0)
    assert [reward is None for reward in scored.rewards_E_N_K[0][0]] == [False, False, True, False]


def test_a_shard_that_was_collected_without_continuations_is_not_scored_as_if_it_had_them() -> None:
    for credit in CREDITS:
        with pytest.raises(AssertionError, match=f"has no continuation: .*team_credit {credit}"):
            score_shard(shard("node"), family=FAMILY, rubric=RUBRIC, credit=credit)


def test_answers_are_not_what_decides_a_seed() -> None:
    """Candidates that differ in place alone have different continuations, and equal plans equal shards."""
    engine = RecordingGenerator(respond=lambda prompt, seed: answer("", seed))
    assert shard("turn_end", engine) == shard("turn_end", RecordingGenerator(respond=lambda p, s: answer("", s)))
    seeds = [seed for call in engine.calls for request in call for seed in request.seeds_K]
    assert len(set(seeds)) == len(seeds)
