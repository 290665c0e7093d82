"""What blocksworld and eight_queens promise like every game, and what their agents read."""

import json
import re
from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.environments.family import Family
from components.environments.games.eight_queens import columns_of, num_attacked
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.identity import content_id
from components.schema import Problem
from tests.components.environments.newest_rewards import is_solved

TOOL, PLAN = "tool_agent", "plan_agent"
PUZZLES = ("blocksworld", "eight_queens")
VARIANTS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("blocksworld", {}),
    ("blocksworld", {"num_blocks": 3, "max_distance": 5, "max_moves": 5}),
    ("blocksworld", {"num_blocks": 4, "max_moves": 3}),
    ("blocksworld", {"num_blocks": 12, "min_distance": 8, "max_distance": 24, "max_moves": 24}),
    ("eight_queens", {}),
    ("eight_queens", {"size": 5, "num_free": 3}),
    ("eight_queens", {"size": 8, "num_free": 6, "max_placements": 3}),
    ("eight_queens", {"size": 10, "num_free": 8}),
)
NEARLY_ANSWERS = st.text(alphabet="abcde0123[], x", max_size=24)
HOSTILE = ("__import__('os').system('true')", "{}", "[[]]", "\ud800", "a0" * 5_000, "1 1", "null", '["ab"]')


def open_play(
    name: str, options: Mapping[str, Any], index: int = 0, split: Any = "train"
) -> tuple[Family, Playthrough]:
    chosen = family(name)
    return chosen, chosen.build(chosen.problem(family_options(name, options), split=split, index=index, seed=7))


@pytest.mark.parametrize(("name", "options"), VARIANTS)
@pytest.mark.parametrize("split", ["train", "test"])
def test_expert_play_solves_every_problem(name: str, options: Mapping[str, Any], split: str) -> None:
    for index in range(15):
        chosen, env = open_play(name, options, index, split)
        assert not is_solved(env)
        for _ in range(9):
            proposed = env.apply(TOOL, chosen.expert_action(env.position, TOOL))
            decided = env.apply(PLAN, chosen.expert_action(env.position, PLAN))
            assert (proposed.error, decided.error, proposed.done) == (None, None, False)
            assert proposed.solves == decided.solves == decided.done
            if env.done:
                break
        assert is_solved(env)
        assert decided.team == {"solved": 1.0, "progress": 1.0}
        assert env.team_reward == pytest.approx(1.2)


@pytest.mark.parametrize("name", PUZZLES)
def test_one_list_of_the_expert_is_enough_by_default(name: str) -> None:
    for index in range(60):
        chosen, env = open_play(name, {}, index)
        assert env.apply(PLAN, chosen.expert_action(env.position, PLAN)).done


@pytest.mark.parametrize("name", PUZZLES)
def test_the_splits_share_no_problem_and_no_board(name: str) -> None:
    chosen, options = family(name), family_options(name, {})
    board = {"blocksworld": "goal", "eight_queens": "rows"}[name]
    problems = {
        split: [chosen.problem(options, split=split, index=i, seed=0) for i in range(300)]
        for split in ("train", "test")
    }
    boards = {split: {str(problem.payload[board]) for problem in drawn} for split, drawn in problems.items()}
    assert not boards["train"] & boards["test"]
    assert min(len({problem.problem_id for problem in drawn}) for drawn in problems.values()) > 230


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_a_problem_is_a_pure_function_of_its_arguments_and_plain_json(name: str, options: Mapping[str, Any]) -> None:
    chosen, checked = family(name), family_options(name, options)
    problem = chosen.problem(checked, split="train", index=3, seed=11)
    assert problem == chosen.problem(checked, split="train", index=3, seed=11)
    assert problem.problem_id == content_id(name, problem.payload)
    assert json.loads(json.dumps(problem.payload)) == problem.payload


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_observations_have_one_width_and_use_the_alphabet_only(name: str, options: Mapping[str, Any]) -> None:
    rng = Random(0)
    widths: dict[str, set[int]] = {TOOL: set(), PLAN: set()}
    characters: set[str] = set()
    for index in range(8):
        chosen, env = open_play(name, options, index)
        for noise in (0.0, 0.3, 1.0):
            env.position = chosen.scramble(env.position, rng, env.referee.tools)
            assert not is_solved(env)
            noisy = chosen.noisy_expert_action(env.position, TOOL, noise=noise, rng=rng)
            assert len(noisy) <= chosen.max_action_characters(family_options(name, options))
            for answer in (None, "nonsense", "", chosen.random_action(env.position, TOOL, rng), noisy):
                assert answer is None or answer == "nonsense" or env.apply(TOOL, answer).error is None
                if answer == "nonsense":
                    assert env.apply(TOOL, answer).error
                for role in env.roles:
                    text = env.observe(role).state
                    widths[role].add(len(text))
                    characters |= {*text, *noisy}
    assert [len(found) for found in widths.values()] == [1, 1]
    alphabet = chosen.alphabet(family_options(name, options))
    assert characters <= {*alphabet}
    assert len({*alphabet}) == len(alphabet)


@pytest.mark.parametrize(("name", "options"), VARIANTS)
def test_useless_agents_score_nothing(name: str, options: Mapping[str, Any]) -> None:
    longest = family(name).max_action_characters(family_options(name, options))
    for index in range(12):
        _, probe = open_play(name, options, index)
        example = re.search(r"Example: (\[[^\]]+\])", probe.observe(PLAN).instructions)
        assert example is not None
        for answer in ("", "[]", example[1], example[1][1:3] * (longest // 2), example[1] * 30):
            _, env = open_play(name, options, index)
            for _ in range(4):
                env.apply(TOOL, answer)
                assert not env.apply(PLAN, answer).solves
            assert not is_solved(env)


@pytest.mark.parametrize("name", PUZZLES)
def test_random_play_of_two_turns_solves_nothing(name: str) -> None:
    rng = Random(4)
    for index in range(200):
        chosen, env = open_play(name, {}, index)
        for _ in range(2):
            for role in env.roles:
                assert env.apply(role, chosen.random_action(env.position, role, rng)).error is None
        assert not is_solved(env)


@pytest.mark.parametrize("name", PUZZLES)
@settings(max_examples=80, deadline=None)
@given(role=st.sampled_from([TOOL, PLAN]), answer=st.text() | NEARLY_ANSWERS, index=st.integers(0, 3))
def test_no_answer_raises_and_a_malformed_one_changes_nothing(name: str, role: str, answer: str, index: int) -> None:
    _, env = open_play(name, {}, index)
    state = env.position.state.state
    outcome = env.apply(role, answer)
    assert -1.0 <= outcome.team["progress"] <= 1.0
    if outcome.error is not None or role == TOOL:
        assert env.position.state.state == state
        assert not env.done


@pytest.mark.parametrize("name", PUZZLES)
@pytest.mark.parametrize("answer", HOSTILE)
def test_hostile_text_is_malformed_for_both_roles(name: str, answer: str) -> None:
    _, env = open_play(name, {})
    for role in env.roles:
        assert env.apply(role, answer).error


@pytest.mark.parametrize("name", PUZZLES)
def test_restoring_a_snapshot_brings_everything_back(name: str) -> None:
    chosen, env = open_play(name, {})
    _, twin = open_play(name, {})
    rng = Random(0)
    env.apply(TOOL, chosen.expert_action(env.position, TOOL))
    before, snapshot = [env.observe(role) for role in env.roles], env.position
    env.apply(PLAN, chosen.noisy_expert_action(env.position, PLAN, noise=0.7, rng=rng))
    assert [env.observe(role) for role in env.roles] != before
    for one in (env, twin):
        one.position = snapshot
        assert [one.observe(role) for role in env.roles] == before
        assert one.team_reward == pytest.approx(1.2)


def test_towers_are_scrambled_to_where_one_short_list_will_do_however_rare_that_is() -> None:
    rng, states = Random(0), set()
    for index in range(30):
        chosen, env = open_play("blocksworld", {"num_blocks": 12, "max_distance": 30, "max_moves": 2}, index % 2)
        env.position = chosen.scramble(env.position, rng, env.referee.tools)
        states.add(env.position.state.state)
        assert not is_solved(env)
        assert env.apply(PLAN, chosen.expert_action(env.position, PLAN)).done
    assert len(states) > 10


@pytest.mark.parametrize("name", PUZZLES)
def test_pictures_are_ascii_with_colour_only_when_asked(name: str) -> None:
    chosen, env = open_play(name, {})
    env.apply(PLAN, chosen.expert_action(env.position, PLAN)[:2])
    assert env.render(color=False).isascii()
    assert "\x1b" not in env.render(color=False)
    assert "\x1b" in env.render(color=True)


def test_blocksworld_agents_read_towers_goal_and_report() -> None:
    payload = {"towers": ["bac", "d"], "goal": ["abcd"], "max_moves": 6}
    env = family("blocksworld").build(Problem(problem_id="x", environment="blocksworld", payload=payload))
    assert env.observe(TOOL).state == "Tbac.d--\nabcd---\n:"
    outcome = env.apply(TOOL, "[c0, a0]")
    assert outcome.team["progress"] == pytest.approx(2 / 5)
    assert env.observe(PLAN).state == "Pbac.d--\nabcd---\n:c0a0--------|a.b.c.dn>"
    assert env.apply(PLAN, "c0 a0, bacb dc").done
    assert env.render(color=False) == "d'\nc'\nb'\na'\ngoal abcd"


def test_a_move_that_cannot_be_made_does_nothing_and_is_not_clean() -> None:
    payload = {"towers": ["bac", "d"], "goal": ["abcd"], "max_moves": 6}
    env = family("blocksworld").build(Problem(problem_id="x", environment="blocksworld", payload=payload))
    outcome = env.apply(PLAN, "b0acaa")
    assert (outcome.error, outcome.local["clean"], outcome.team["progress"]) == (None, 0.0, 0.0)
    assert env.observe(TOOL).state == "Tbac.d--\nabcd---\n:"


def test_eight_queens_agents_read_rows_and_report_and_given_queens_stay() -> None:
    payload = {"rows": "2..3", "max_placements": 2}
    env = family("eight_queens").build(Problem(problem_id="x", environment="eight_queens", payload=payload))
    assert env.observe(TOOL).state == "T2..3\n:"
    assert env.apply(TOOL, "[21, 33]").local["clean"] == 0.0
    assert env.observe(PLAN).state == "P2..3\n:2133|04n>"
    refused = env.apply(PLAN, "24, 41")
    assert refused.error == "41: the queen in row 4 is given and cannot be moved"
    assert env.apply(PLAN, "24 31").done
    assert env.render(color=False) == ". Q . .\n. . . q\nq . . .\n. . Q ."


@pytest.mark.parametrize("options", [{"size": 5, "num_free": 3}, {"size": 6, "num_free": 4}])
def test_success_is_a_full_board_without_attacks_for_every_filling(options: Mapping[str, Any]) -> None:
    chosen, probe = open_play("eight_queens", options, 1)
    free = [row for row, mark in enumerate(probe.position.state.state) if mark == "."]
    size, solved = options["size"], 0
    for columns in product(range(size), repeat=len(free)):
        _, env = open_play("eight_queens", options, 1)
        text = "".join(f"{row + 1}{column + 1}" for row, column in zip(free, columns, strict=True))
        outcome = env.apply(PLAN, text)
        held = columns_of(env.position.state.state)
        assert outcome.solves == (None not in held and num_attacked(held) == 0)
        solved += outcome.solves
    assert solved >= 1
    assert chosen.expert_action(probe.position, PLAN)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("blocksworld", {"num_blocks": 13}, "less than or equal to 12"),
        ("blocksworld", {"min_distance": 9}, "exceeds max_distance 8"),
        ("eight_queens", {"size": 4, "num_free": 4}, "use at most 3"),
        ("eight_queens", {"size": 11}, "less than or equal to 10"),
    ],
)
def test_a_wrong_option_is_explained(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        family_options(name, options)
