"""The laws of AT-GRPO, each against the brute-force oracle or stated on its own."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.at_grpo import at_grpo_advantages
from components.errors import ConfigurationError, StoreUnavailable
from components.generation.scripted import CharacterTokenizer, ScriptedGenerator
from components.identity import GroupKey, seed_for
from components.rewards.base import Rubric
from components.rollout.play import play
from components.rollout.rules import Rules, Start
from components.schema import Episode
from tests.components.rollout.oracle import Game, grow
from tests.components.rollout.toy_team import (
    ALPHABET,
    RUBRIC,
    VERSION,
    RecordingGenerator,
    ToyFamily,
    ToyLaws,
    toy_problems,
    toy_router,
)

MAX_NEW_TOKENS = 4

trees = st.fixed_dictionaries(
    {
        "num_agents": st.integers(1, 4),
        "max_turns": st.integers(1, 5),
        "group_size": st.integers(1, 8),
        "num_problems": st.integers(1, 3),
        "seed": st.integers(0, 10**6),
        "done_rate": st.sampled_from([0.0, 0.05, 0.3]),
        "failure_rate": st.sampled_from([0.0, 0.0, 0.02, 0.1]),
        "levels": st.sampled_from([1, 2, 100]),
        "handoff": st.sampled_from([0.0, 0.3, 1.0]),
    }
)


def rules_of(tree: dict[str, Any], family: ToyFamily) -> Rules:
    return Rules(
        roles=family.roles,
        max_turns=tree["max_turns"],
        group_size=tree["group_size"],
        temperature=1.0,
        seed=tree["seed"],
        purpose=("rollout", 7),
        random_handoff_probability=tree["handoff"],
    )


def sampled(tree: dict[str, Any]) -> tuple[Episode, ...]:
    family = ToyFamily(tree["num_agents"])
    starts = [Start(problem=each.problem, episode=0) for each in problems_of(tree)]
    router = toy_router(family, max_new_tokens=MAX_NEW_TOKENS)
    return play(starts, rules_of(tree, family), family=family, router=router, rubric=RUBRIC)


def problems_of(tree: dict[str, Any]) -> Any:
    laws = {name: tree[name] for name in ("done_rate", "failure_rate", "levels")}
    return toy_problems(ToyFamily(tree["num_agents"]), tree["num_problems"], tree["seed"], **laws)


def as_oracle_says(episode: Episode) -> list[dict[str, Any]]:
    return [
        {
            "turn": node.group.turn,
            "agent": node.group.agent,
            "prompt": node.prompt_tokens,
            "candidates": [
                {"text": c.text, "stopped": c.finish_reason == "stop", "outcome": c.outcome, "reward": c.reward}
                for c in node.candidates
            ],
            "chosen": node.chosen,
            "explored": node.explored,
        }
        for node in episode.turns
    ]


@settings(max_examples=150, deadline=None)
@given(trees)
def test_the_sampler_grows_the_trees_of_the_oracle(tree: dict[str, Any]) -> None:
    for episode in sampled(tree):
        game = Game(
            payload=episode.problem.payload,
            problem_id=episode.problem.problem_id,
            episode=0,
            roles=ToyFamily(tree["num_agents"]).roles,
            max_turns=tree["max_turns"],
            group_size=tree["group_size"],
            seed=tree["seed"],
            step=7,
            random_handoff_probability=tree["handoff"],
            max_new_tokens=MAX_NEW_TOKENS,
        )
        nodes, success, failed = grow(game)
        assert as_oracle_says(episode) == nodes
        assert episode.success == success
        assert (episode.error is not None) == failed


@settings(max_examples=60, deadline=None)
@given(trees)
def test_a_group_is_one_problem_turn_agent_and_prompt(tree: dict[str, Any]) -> None:
    keys = []
    for episode in sampled(tree):
        for node in episode.turns:
            keys.append(node.group)
            assert node.group.problem_id == episode.problem.problem_id
            assert len(node.candidates) == tree["group_size"]
            shown = "".join(ALPHABET[token - 1] for token in node.prompt_tokens)
            assert shown.startswith(f"{episode.problem.payload['name']}|{node.group.agent}|")
    assert len(set(keys)) == len(keys)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_every_prompt_shows_exactly_the_chosen_chain(tree: dict[str, Any]) -> None:
    for episode in sampled(tree):
        chain: tuple[tuple[str, str], ...] = ()
        laws = ToyLaws(episode.problem.payload)
        for node in episode.turns:
            shown = "".join(ALPHABET[token - 1] for token in node.prompt_tokens)
            assert shown == laws.text(chain, node.group.agent)
            chain = (*chain, (node.group.agent, node.candidates[node.chosen].text))


@settings(max_examples=60, deadline=None)
@given(trees)
def test_done_on_the_selected_branch_ends_the_tree_and_on_no_other(tree: dict[str, Any]) -> None:
    for episode in sampled(tree):
        selected = [node.candidates[node.chosen].outcome.done for node in episode.turns]
        assert not any(selected[:-1])
        if episode.error is None and not (selected and selected[-1]):
            assert len(episode.turns) == tree["max_turns"] * tree["num_agents"]
            assert not episode.success


@settings(max_examples=60, deadline=None)
@given(trees)
def test_advantages_of_sampled_groups_sum_to_zero(tree: dict[str, Any]) -> None:
    for episode in sampled(tree):
        for node in episode.turns:
            rewards = [c.reward for c in node.candidates]
            advantages = at_grpo_advantages(rewards, normalize_std=True, epsilon=1e-4)
            assert abs(sum(advantages)) < 1e-9
            if len(set(rewards)) == 1:
                assert advantages == (0.0,) * len(rewards)


def test_later_agents_and_turns_are_scored_on_their_own_candidates() -> None:
    tree = {
        "num_agents": 3,
        "max_turns": 3,
        "group_size": 8,
        "num_problems": 4,
        "seed": 1,
        "done_rate": 0.0,
        "failure_rate": 0.0,
        "levels": 100,
        "handoff": 0.0,
    }
    for episode in sampled(tree):
        assert len(episode.turns) == 9
        for node in episode.turns:
            by_text = {c.text: c.reward for c in node.candidates}
            assert len(by_text) > 1
            assert len(set(by_text.values())) == len(by_text), f"{node.group} has equal rewards for different actions"


def node(turn: int, agent: str) -> GroupKey:
    return GroupKey(problem_id="p", episode=0, turn=turn, agent=agent)


def team_rules(handoff: float, group_size: int = 8) -> Rules:
    return Rules(
        roles=("tool", "plan"),
        max_turns=2,
        group_size=group_size,
        temperature=1.0,
        seed=0,
        purpose=("rollout", 0),
        random_handoff_probability=handoff,
    )


def test_ties_hand_on_the_first_of_the_best() -> None:
    assert team_rules(0.0).choose(node(0, "tool"), [0.1, 1.3, -2.0, 1.3]) == (1, False)


def test_mixed_hands_on_random_candidates_at_its_rate_and_never_from_the_last_agent() -> None:
    rules = team_rules(0.75)
    rewards = [0.0] * 7 + [1.0]
    drawn = [rules.choose(node(turn, "tool"), rewards) for turn in range(2000)]
    explored = [chosen for chosen, random in drawn if random]
    assert abs(len(explored) / 2000 - 0.75) < 0.03
    assert set(explored) == set(range(8))
    assert all(chosen == 7 for chosen, random in drawn if not random)
    assert {rules.choose(node(turn, "plan"), rewards) for turn in range(200)} == {(7, False)}


def test_the_seeds_of_a_step_are_all_different_and_do_not_depend_on_the_batch() -> None:
    rules = team_rules(0.0)
    seeds = [s for turn in range(3) for agent in ("tool", "plan") for s in rules.seeds(node(turn, agent))]
    assert len(set(seeds)) == 3 * 2 * 8
    assert rules.seeds(node(1, "plan"))[5] == seed_for(0, "rollout", 0, "p", 0, 1, "plan", 5)


def test_one_engine_call_serves_all_live_episodes_and_candidates_of_a_node() -> None:
    family, engine = ToyFamily(2), RecordingGenerator()
    starts = [Start(problem=each.problem, episode=0) for each in toy_problems(family, 6, done_rate=0.0)]
    rules = team_rules(0.0, group_size=5)
    rules = replace(rules, roles=family.roles, max_turns=3)
    play(starts, rules, family=family, router=toy_router(family, engine), rubric=RUBRIC)
    assert [[len(request.seeds_K) for request in call] for call in engine.calls] == [[5] * 6] * 6


def test_sampling_a_block_at_once_equals_sampling_one_problem_at_a_time() -> None:
    family = ToyFamily(3)
    starts = [Start(problem=e.problem, episode=0) for e in toy_problems(family, 12, failure_rate=0.02)]
    rules = replace(team_rules(0.5), roles=family.roles, max_turns=4)
    together = play(starts, rules, family=family, router=toy_router(family), rubric=RUBRIC)
    alone = [play([s], rules, family=family, router=toy_router(family), rubric=RUBRIC)[0] for s in starts]
    assert together == tuple(alone)
    assert {e.error is None for e in together} == {True, False}


def test_a_failure_ends_one_episode_keeps_its_turns_and_says_where() -> None:
    family = ToyFamily(2)
    sound, broken = toy_problems(family, 2, done_rate=0.0)
    late = replace(broken.problem, payload={**broken.problem.payload, "fails_at": 4})
    unbuildable = replace(broken.problem, payload={**broken.problem.payload, "unbuildable": True})
    starts = [Start(problem=problem, episode=0) for problem in (sound.problem, late, unbuildable)]
    rules = replace(team_rules(0.0, group_size=2), roles=family.roles, max_turns=5)
    good, bad, never = play(starts, rules, family=family, router=toy_router(family), rubric=RUBRIC)
    assert good.error is None
    assert len(good.turns) == 10
    assert bad.error is not None
    assert [str(node.group)[-9:] for node in bad.turns] == ["t0/agent0", "t0/agent1", "t1/agent0"]
    assert bad.error.startswith("turn 1, agent1 acts: RuntimeError: broke on ")
    assert not bad.success
    assert never.error == "build: OSError: no such toy"
    assert never.turns == ()


def test_what_concerns_the_whole_stage_passes_the_border_of_the_episode() -> None:
    family = ToyFamily(1)
    rules = replace(team_rules(0.0), roles=family.roles)
    start = Start(problem=toy_problems(family, 1)[0].problem, episode=0)
    illiterate = ScriptedGenerator(lambda prompt, seed: "a", CharacterTokenizer("a"), VERSION)
    with pytest.raises(ConfigurationError, match="is not in the alphabet"):
        play([start], rules, family=family, router=toy_router(family, illiterate), rubric=RUBRIC)

    class Unreachable(ToyFamily):
        def build(self, problem: Any) -> Any:
            raise StoreUnavailable("sandbox image")

    with pytest.raises(StoreUnavailable):
        play([start], rules, family=Unreachable(1), router=toy_router(family), rubric=RUBRIC)
    nameless = Rubric(team_weight=1.0, weights={})
    with pytest.raises(AssertionError, match="rubric has no weight"):
        play([start], rules, family=family, router=toy_router(family), rubric=nameless)


def test_an_undecodable_answer_fails_its_episode() -> None:
    class Torn(CharacterTokenizer):
        def decode(self, tokens: Any) -> str:
            if len(tokens) < 8:
                raise UnicodeDecodeError("utf-8", b"", 0, 1, "torn")
            return super().decode(tokens)

    family = ToyFamily(1)
    rules = replace(team_rules(0.0), roles=family.roles)
    start = Start(problem=toy_problems(family, 1)[0].problem, episode=0)
    engine = ScriptedGenerator(lambda prompt, seed: "a", Torn(ALPHABET), VERSION)
    (episode,) = play([start], rules, family=family, router=toy_router(family, engine), rubric=RUBRIC)
    assert episode.error is not None
    assert "UnicodeDecodeError" in episode.error


def test_an_answer_cut_at_its_limit_is_judged_as_the_text_it_is() -> None:
    family = ToyFamily(1)
    rules = replace(team_rules(0.0), roles=family.roles, max_turns=1)
    start = Start(problem=toy_problems(family, 1)[0].problem, episode=0)
    engine = ScriptedGenerator(lambda prompt, seed: "abcdef", CharacterTokenizer(ALPHABET), VERSION)
    router = toy_router(family, engine, max_new_tokens=3)
    (episode,) = play([start], rules, family=family, router=router, rubric=RUBRIC)
    assert {(c.text, c.finish_reason, len(c.tokens)) for c in episode.turns[0].candidates} == {("abc", "length", 3)}
