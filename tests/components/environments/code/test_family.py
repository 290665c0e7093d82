"""What the family promises of every dataset: expert, noisy, random and idle play, splits, alphabet and bounds."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from components.environments.base import Split, Tools
from components.environments.code.grammar import cases_in
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.schema import Problem

TESTER, CODER = "tester", "coder"
FAMILY = family("code")
SMALL = {"num_hidden_tests": 3, "max_generated_tests": 2, "max_mutants": 2}
VARIANTS: tuple[Mapping[str, Any], ...] = (
    {"levels": [0], **SMALL},
    {"levels": [1, 2], "kinds": ["stdin"], **SMALL},
    {"levels": [3], "kinds": ["function"], "num_visible_tests": 1, **SMALL},
    {"dataset": "humaneval", **SMALL},
)


def problem(options: Mapping[str, Any], index: int = 0, split: Split = "train", seed: int = 7) -> Problem:
    return FAMILY.problem(family_options("code", options), split=split, index=index, seed=seed)


def open_play(tools: Tools, options: Mapping[str, Any], index: int = 0, split: Split = "train") -> Playthrough:
    return FAMILY.build(problem(options, index, split), tools)


@pytest.mark.parametrize("options", VARIANTS)
def test_an_expert_team_solves_every_problem_and_an_idle_or_random_one_none(
    options: Mapping[str, Any], sandbox_tools: Tools
) -> None:
    rng = Random(0)
    for index in range(4):
        env = open_play(sandbox_tools, options, index, "test")
        for agent in (TESTER, CODER):
            answer = FAMILY.expert_action(env.position, agent)
            sandbox_tools.prepare(env.referee.calls(env.position, agent, answer))
            outcome = env.apply(agent, answer)
            assert outcome.error is None
        assert outcome.team == {"solved": 1.0, "passed": 1.0}
        assert env.success
        assert env.done
        for idle in (True, False):
            env = open_play(sandbox_tools, options, index, "test")
            for _ in range(2):
                for agent in (TESTER, CODER):
                    outcome = env.apply(agent, "" if idle else FAMILY.random_action(env.position, agent, rng))
                    assert (outcome.error is None) is not idle
                    assert outcome.team["solved"] == 0.0
            assert not env.success
            assert not env.done


@pytest.mark.parametrize("options", VARIANTS[:3])
def test_an_expert_tester_writes_new_right_tests_that_find_mutants(options: Mapping[str, Any], host_tools: Any) -> None:
    killed = []
    for index in range(12):
        env = open_play(host_tools, options, index)
        outcome = env.apply(TESTER, FAMILY.expert_action(env.position, TESTER))
        assert outcome.local["valid"] == 1.0
        killed.append(outcome.local["killed"])
    assert sum(killed) > 8


@pytest.mark.parametrize("options", VARIANTS)
def test_an_expert_tester_shows_no_hidden_test(options: Mapping[str, Any], host_tools: Any) -> None:
    for index in range(30):
        env = open_play(host_tools, options, index)
        for noise in (0.0, 0.5):
            written = FAMILY.noisy_expert_action(env.position, TESTER, noise=noise, rng=Random(index))
            coded = env.position.state.problem
            for case in cases_in(written, coded):
                assert case.given not in {hidden.given for hidden in coded.hidden} or case.given == "[0]"


@pytest.mark.parametrize("options", VARIANTS)
def test_observations_and_answers_stay_in_the_alphabet_and_the_bounds(
    options: Mapping[str, Any], host_tools: Any
) -> None:
    checked, rng = family_options("code", options), Random(3)
    alphabet = FAMILY.alphabet(checked)
    assert len({*alphabet}) == len(alphabet)
    assert {*alphabet} == {*map(chr, range(32, 127)), "\n"}
    for index in range(8):
        env = open_play(host_tools, options, index)
        for agent in (TESTER, CODER, TESTER):
            for answer in (
                FAMILY.random_action(env.position, agent, rng),
                "é => 1\n\x00 => \x1b",
                FAMILY.noisy_expert_action(env.position, agent, noise=0.5, rng=rng),
            ):
                assert len(answer) <= FAMILY.max_action_characters(checked)
                env.apply(agent, answer)
                for role in env.roles:
                    seen = env.observe(role)
                    assert {*seen.state, *seen.instructions, *env.render(color=False)} <= {*alphabet}


@pytest.mark.parametrize("options", VARIANTS)
def test_copying_the_examples_of_the_instructions_solves_nothing(options: Mapping[str, Any], host_tools: Any) -> None:
    for index in range(8):
        env = open_play(host_tools, options, index)
        for agent in (TESTER, CODER):
            example = env.observe(agent).instructions.partition("for another problem:")[2]
            outcome = env.apply(agent, example)
            assert outcome.error is None
            assert outcome.local.get("valid", 0.0) == 0.0
            assert outcome.team == {"solved": 0.0, "passed": 0.0}
        assert not env.done


def test_without_tools_the_error_says_how_to_get_them() -> None:
    env = FAMILY.build(problem({}))
    with pytest.raises(ConfigurationError, match="was given no tools"):
        env.apply(CODER, "print(1)")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"levels": []}, "levels .*at least one of"),
        ({"levels": [7]}, r"levels \[7\]"),
        ({"kinds": []}, "kinds .*at least one of"),
        ({"dataset": "mbpp"}, "environment.options.dataset"),
        ({"num_hidden": 3}, "did you mean 'num_hidden_tests'"),
        ({"test_source": {"path": "x.jsonl"}}, "test_source .*test_dataset"),
        ({"max_generated_tests": 0}, "max_generated_tests"),
    ],
)
def test_wrong_options_are_explained(options: Mapping[str, Any], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        family_options("code", options)


def test_options_that_allow_no_puzzle_are_an_error_with_a_remedy() -> None:
    with pytest.raises(ConfigurationError, match="max_answer_characters"):
        problem({"levels": [3], "max_answer_characters": 20})
