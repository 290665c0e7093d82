"""What the family promises: the expert wins through the real index, nobody else does by doing nothing, all is repeatable."""

import re
import subprocess
import sys
from random import Random

import pytest

from components.environments.base import Split
from components.environments.search.sources import question_set
from tests.components.environments.search.tables import (
    REASONER,
    SEARCHER,
    observation_characters,
    open_play,
    options_of,
    the_family,
    tools_of,
)

LEVELS = (0, 1, 2)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_the_expert_answers_every_question_after_finding_every_passage(level: int, split: Split) -> None:
    options = {"level": level}
    for index in range(80):
        chosen, env = open_play(options, index, split)
        num_hops = len(env.position.state.question.hops)
        turns = 0
        while not env.done and turns < num_hops:
            turns += 1
            for role in env.roles:
                action = chosen.expert_action(env.position, role)
                assert len(action) <= chosen.max_action_characters(options_of(**options))
                outcome = env.apply(role, action)
                assert outcome.error is None
        assert env.success
        assert turns <= num_hops
        assert env.position.state.state.found == frozenset(range(num_hops))
        assert outcome.team == {"solved": 1.0, "f1": 1.0}


def test_two_turns_are_enough_by_default() -> None:
    assert max(len(question.hops) for question in question_set(options_of()).train) == 2


@pytest.mark.parametrize("level", LEVELS)
def test_useless_teams_score_nothing(level: int) -> None:
    """Idle, copying the question or the instructions' examples, listing all that is shown, and random play."""
    rng = Random(0)
    for index in range(40):
        _, probe = open_play({"level": level}, index)
        examples = [re.findall(r"Example: '([^']+)'", probe.observe(role).instructions)[0] for role in probe.roles]
        for answer in (
            "",
            "=",
            f"={probe.position.state.question.text}",
            examples[0],
            examples[1],
            "=" + examples[1][2:],
        ):
            chosen, env = open_play({"level": level}, index)
            for _ in range(2):
                for role in env.roles:
                    assert not env.apply(role, answer).solves
            assert not env.success
        chosen, env = open_play({"level": level}, index)
        for _ in range(2):
            env.apply(SEARCHER, chosen.expert_action(env.position, SEARCHER))
            inquiry = env.position.state
            everything = " ".join(f"{title} {text}" for title, text in inquiry.state.evidence)
            everything = everything[: inquiry.sizes.line_characters]
            assert not env.apply(REASONER, f"={everything}").solves
        chosen, env = open_play({"level": level}, index)
        for _ in range(3):
            for role in env.roles:
                if not env.done:
                    assert env.apply(role, chosen.random_action(env.position, role, rng)).error is None
        assert not env.success


def test_an_epoch_meets_every_question_once_and_the_splits_share_none() -> None:
    chosen, options = the_family(), options_of()
    ids = {}
    for split, questions in (("train", question_set(options).train), ("test", question_set(options).test)):
        met = [chosen.problem(options, split=split, index=i, seed=5).problem_id for i in range(len(questions))]
        assert len(set(met)) == len(questions)
        ids[split] = set(met)
    assert not ids["train"] & ids["test"]


def test_importing_the_family_loads_no_heavy_library() -> None:
    program = (
        "import sys\n"
        "from components.environments.registry import family, family_options\n"
        "f = family('search'); f.problem(family_options('search', {}), split='train', index=0, seed=0)\n"
        "print([name for name in ('bm25s', 'Stemmer', 'datasets', 'torch', 'transformers') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


@pytest.mark.parametrize("level", [0, 1])
def test_play_stays_within_the_alphabet_and_the_bounds(level: int) -> None:
    rng = Random(0)
    options = options_of(level=level)
    alphabet = the_family().alphabet(options)
    assert len({*alphabet}) == len(alphabet)
    for index in range(40):
        chosen, env = open_play({"level": level}, index)
        env.position = chosen.scramble(env.position, rng, env.referee.tools)
        for _ in range(3):
            for role in env.roles:
                seen = env.observe(role).state
                assert len(seen) <= observation_characters(env.position.state.sizes)
                for action in (
                    chosen.noisy_expert_action(env.position, role, noise=0.5, rng=rng),
                    chosen.random_action(env.position, role, rng),
                    chosen.expert_action(env.position, role),
                ):
                    assert {*action, *seen} <= {*alphabet}
                    assert len(action) <= chosen.max_action_characters(options)
                if not env.done:
                    env.apply(role, chosen.noisy_expert_action(env.position, role, noise=0.5, rng=rng))


def test_level_0_is_short_enough_for_a_model_of_characters() -> None:
    longest = 0
    for index in range(300):
        chosen, env = open_play({}, index)
        for _ in range(2):
            for role in env.roles:
                longest = max(longest, len(env.observe(role).state))
                env.apply(role, chosen.expert_action(env.position, role))
    assert longest <= 160
    assert the_family().max_action_characters(options_of()) <= 32


def test_a_later_attempt_with_the_record_asks_the_retriever_nothing() -> None:
    chosen = the_family()
    tools = tools_of(chosen.retriever(options_of()))
    problem = chosen.problem(options_of(), split="train", index=0, seed=7)
    first, outcomes = chosen.build(problem, tools), []
    actions = []
    for _ in range(2):
        for role in first.roles:
            if not first.done:
                actions.append((role, chosen.expert_action(first.position, role)))
                outcomes.append(first.apply(*actions[-1]))
    asked = tools.num_asked
    assert asked >= 1
    again = chosen.build(problem, tools)
    assert [again.apply(*each) for each in actions] == outcomes
    assert tools.num_asked == asked
