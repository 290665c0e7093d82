"""What the agents of blocksworld and eight_queens read, and what wins there."""

from collections.abc import Mapping
from itertools import product
from random import Random
from typing import Any

import pytest

from components.environments.games.eight_queens import columns_of, num_attacked
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.schema import Problem
from tests.components.environments.games.test_families import PLAN, TOOL, open_play
from tests.components.environments.newest_rewards import is_solved


def test_towers_are_scrambled_to_where_one_short_list_will_do_however_rare_that_is() -> None:
    rng, states = Random(0), set()
    for index in range(30):
        chosen, env = open_play("blocksworld", {"num_blocks": 12, "max_distance": 30, "max_moves": 2}, index % 2)
        env.position = chosen.scramble(env.position, rng, env.referee.tools)
        states.add(env.position.state.state)
        assert not is_solved(env)
        assert env.apply(PLAN, chosen.expert_action(env.position, PLAN)).done
    assert len(states) > 10


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
