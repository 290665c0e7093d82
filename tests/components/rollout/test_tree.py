"""The laws of AT-GRPO, each against the brute-force oracle or stated on its own."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from components.algorithms.normalisation import group_advantages
from components.rollout.play import play
from components.rollout.rules import SamplingRules, Start
from components.schema import Episode
from tests.components.rollout.oracle import Game, grow
from tests.components.rollout.toy_team import (
    ALPHABET,
    RUBRIC,
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


def rules_of(tree: dict[str, Any], family: ToyFamily) -> SamplingRules:
    return SamplingRules(
        turn_order=family.roles,
        max_turns=tree["max_turns"],
        group_size=tree["group_size"],
        temperature=1.0,
        seed=tree["seed"],
        purpose=("rollout", 7),
        random_handoff_probability=tree["handoff"],
    )


def sample(tree: dict[str, Any]) -> tuple[Episode, ...]:
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
            "chosen_randomly": node.chosen_randomly,
        }
        for node in episode.nodes
    ]


@settings(max_examples=150, deadline=None)
@given(trees)
def test_the_sampler_grows_the_trees_of_the_oracle(tree: dict[str, Any]) -> None:
    for episode in sample(tree):
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
    for episode in sample(tree):
        for node in episode.nodes:
            keys.append(node.group)
            assert node.group.problem_id == episode.problem.problem_id
            assert len(node.candidates) == tree["group_size"]
            shown = "".join(ALPHABET[token - 1] for token in node.prompt_tokens)
            assert shown.startswith(f"{episode.problem.payload['name']}|{node.group.agent}|")
    assert len(set(keys)) == len(keys)


@settings(max_examples=60, deadline=None)
@given(trees)
def test_every_prompt_shows_exactly_the_chosen_chain(tree: dict[str, Any]) -> None:
    for episode in sample(tree):
        chain: tuple[tuple[str, str], ...] = ()
        laws = ToyLaws(episode.problem.payload)
        for node in episode.nodes:
            shown = "".join(ALPHABET[token - 1] for token in node.prompt_tokens)
            assert shown == laws.text(chain, node.group.agent)
            chain = (*chain, (node.group.agent, node.candidates[node.chosen].text))


@settings(max_examples=60, deadline=None)
@given(trees)
def test_done_on_the_selected_branch_ends_the_tree_and_on_no_other(tree: dict[str, Any]) -> None:
    for episode in sample(tree):
        selected = [node.candidates[node.chosen].outcome.done for node in episode.nodes]
        assert not any(selected[:-1])
        if episode.error is None and not (selected and selected[-1]):
            assert len(episode.nodes) == tree["max_turns"] * tree["num_agents"]
            assert not episode.success


@settings(max_examples=60, deadline=None)
@given(trees)
def test_advantages_of_sampled_groups_sum_to_zero(tree: dict[str, Any]) -> None:
    for episode in sample(tree):
        for node in episode.nodes:
            rewards = [c.reward for c in node.candidates]
            advantages = group_advantages(rewards, normalize_std=True, epsilon=1e-4)
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
    for episode in sample(tree):
        assert len(episode.nodes) == 9
        for node in episode.nodes:
            by_text = {c.text: c.reward for c in node.candidates}
            assert len(by_text) > 1
            assert len(set(by_text.values())) == len(by_text), f"{node.group} has equal rewards for different actions"
