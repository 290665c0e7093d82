"""The family: problems, splits, and that the expert wins where doing nothing, copying and guessing do not."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from components.environments.math.options import MathOptions
from components.environments.math.procedural import Generator
from components.environments.registry import family
from components.environments.shared.dataset_rows import DatasetSource
from tests.components.environments.math.conftest import SubprocessTools

FAMILY = family("math")
TOOL, REASONER = FAMILY.roles
MIXED: tuple[Generator, ...] = ("arithmetic", "gcd", "dice", "leg_counting")
OPTIONS = [MathOptions(), MathOptions(level=3), MathOptions(prose=True, level=1), MathOptions(generators=MIXED)]


@pytest.fixture
def aime(tmp_path: Path) -> MathOptions:
    path = tmp_path / "aime.jsonl"
    rows = [{"ID": f"2024-I-{n}", "Problem": f"Find $x_{n}$.", "Answer": f"\\frac{{{n}}}{{7}}"} for n in range(1, 8)]
    path.write_text("\n".join(json.dumps(row) for row in rows))
    return MathOptions(test="aime24", test_source=DatasetSource(path=str(path)))


def play_turn(
    options: MathOptions, tools: SubprocessTools, actions: dict[str, Any], index: int = 0
) -> tuple[bool, bool]:
    """Success and end after one turn; an action is text or a function of the position."""
    env = FAMILY.build(FAMILY.problem(options, split="test", index=index, seed=0), tools)
    for agent in FAMILY.roles:
        action = actions[agent]
        env.apply(agent, action if isinstance(action, str) else action(env.position, agent))
    return env.success, env.done


@pytest.mark.parametrize("options", OPTIONS)
def test_the_expert_solves_and_ends_every_problem(options: MathOptions, tools: SubprocessTools) -> None:
    expert = dict.fromkeys(FAMILY.roles, FAMILY.expert_action)
    assert [play_turn(options, tools, expert, index) for index in range(6)] == [(True, True)] * 6


def test_the_expert_solves_every_question_of_a_dataset(aime: MathOptions, tools: SubprocessTools) -> None:
    expert = dict.fromkeys(FAMILY.roles, FAMILY.expert_action)
    assert [play_turn(aime, tools, expert, index) for index in range(7)] == [(True, True)] * 7


@pytest.mark.parametrize("options", OPTIONS)
def test_nothing_statements_and_examples_solve_nothing(options: MathOptions, tools: SubprocessTools) -> None:
    def statement(position: Any, agent: str) -> str:
        return str(position.state.payload["statement"])

    examples = {
        TOOL: "print(1234567 * 7654321)",
        REASONER: "9449772114007" if options.is_compact else r"\boxed{9449772114007}",
    }
    for index in range(5):
        assert play_turn(options, tools, {TOOL: "", REASONER: ""}, index) == (False, False)
        assert not play_turn(options, tools, {TOOL: statement, REASONER: statement}, index)[0]
        assert not play_turn(options, tools, examples, index)[0]
    for agent in FAMILY.roles:
        env = FAMILY.build(FAMILY.problem(options, split="test", index=0, seed=0), tools)
        example = examples[agent].replace(" ", "") if options.is_compact else examples[agent]
        assert example in env.observe(agent).instructions


def test_a_dataset_is_walked_once_an_epoch(aime: MathOptions) -> None:
    epochs = [[FAMILY.problem(aime, split="test", index=7 * epoch + n, seed=0) for n in range(7)] for epoch in range(2)]
    assert len({p.problem_id for p in epochs[0]}) == 7
    assert {p.problem_id for p in epochs[0]} == {p.problem_id for p in epochs[1]}
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("options", [MathOptions(), MathOptions(level=3)])
def test_compact_play_stays_within_alphabet_and_width(options: MathOptions, tools: SubprocessTools) -> None:
    rng, alphabet = Random(0), set(FAMILY.alphabet(options))
    assert len(alphabet) == len(FAMILY.alphabet(options))
    for index in range(12):
        env = FAMILY.build(FAMILY.problem(options, split="train", index=index, seed=0), tools)
        if index % 2:
            env.position = FAMILY.scramble(env.position, rng, env.referee.tools)
        for agent in FAMILY.roles:
            actions = [
                FAMILY.expert_action(env.position, agent),
                FAMILY.random_action(env.position, agent, rng),
                FAMILY.noisy_expert_action(env.position, agent, noise=0.5, rng=rng),
            ]
            assert {*env.observe(agent).state, *"".join(actions)} <= alphabet
            assert max(map(len, actions)) <= FAMILY.max_action_characters(options)
            assert env.apply(agent, actions[-1]).error is None


def test_noise_changes_some_answers_and_none_without_it(tools: SubprocessTools) -> None:
    env, rng = FAMILY.build(FAMILY.problem(MathOptions(), split="train", index=0, seed=0), tools), Random(0)
    for agent in FAMILY.roles:
        expert = FAMILY.expert_action(env.position, agent)
        assert FAMILY.noisy_expert_action(env.position, agent, noise=0.0, rng=rng) == expert
        noisy = [FAMILY.noisy_expert_action(env.position, agent, noise=0.3, rng=rng) for _ in range(100)]
        assert 10 < noisy.count(expert) < 95


def test_a_noisy_reasoner_repeats_what_was_printed_and_an_exact_one_does_not(tools: SubprocessTools) -> None:
    env, rng = FAMILY.build(FAMILY.problem(MathOptions(), split="train", index=0, seed=0), tools), Random(0)
    env.apply(TOOL, "print(8765)")
    answers = [FAMILY.noisy_expert_action(env.position, REASONER, noise=0.05, rng=rng) for _ in range(100)]
    assert 60 < answers.count("8765") < 100
    assert (
        FAMILY.noisy_expert_action(env.position, REASONER, noise=0.0, rng=rng)
        == env.problem.payload["answer"]
        != "8765"
    )


def test_wrong_options_are_explained() -> None:
    with pytest.raises(ValidationError, match="train_source is given for procedural problems"):
        MathOptions(train_source=DatasetSource(path="x.jsonl"))
    with pytest.raises(ValidationError):
        MathOptions(level=4)
    with pytest.raises(ValidationError):
        MathOptions(dataset="gsm9k")  # type: ignore[arg-type]
