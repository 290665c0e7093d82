"""Damaged answers in games, and damaged output of programs: none raises, none takes a second."""

import json
import time
from random import Random

import pytest

from components.environments.games.parsing import GRID_MOVES
from components.environments.games.python_tool import read_printed_moves
from components.environments.registry import family, family_options
from components.errors import MalformedAction
from tests.components.environments.mutations import HOSTILE, damage
from tests.components.sandbox.scripted import make_printed


@pytest.mark.parametrize("name", ["plan_path", "sokoban", "sudoku"])
def test_ten_thousand_damaged_answers_neither_crash_nor_take_a_second(name: str) -> None:
    rng, num_malformed, slowest = Random(3), 0, 0.0
    chosen, options = family(name), family_options(name, {})
    for index in range(20):
        env = chosen.build(chosen.problem(options, split="train", index=index, seed=2))
        start, good = env.position, chosen.expert_action(env.position, "plan_agent")
        for number in range(500):
            role, answer = env.roles[number % 2], rng.choice(HOSTILE) if number % 50 == 0 else damage(good, rng)
            picture = env.render(color=False)
            began = time.thread_time()
            outcome = env.apply(role, answer)
            slowest = max(slowest, time.thread_time() - began)
            if outcome.error is not None:
                num_malformed += 1
                assert outcome.error.encode()
                assert env.render(color=False) == picture
            if env.done or number % 20 == 0:
                env.position = start
    assert slowest < 1.0
    assert 5_000 < num_malformed < 9_900


def test_ten_thousand_damaged_outputs_are_lists_of_moves_or_malformed() -> None:
    rng, num_malformed, slowest = Random(4), 0, 0.0
    for number in range(10_000):
        moves = rng.choices("UDLR", k=rng.randrange(1, 12))
        output = "so be it\n" + json.dumps(rng.choice([moves, "".join(moves)]))
        output = rng.choice(HOSTILE) if number % 50 == 0 else damage(output, rng)
        began = time.thread_time()
        try:
            assert {*GRID_MOVES.parse(read_printed_moves(make_printed(output)), max_moves=20)} <= {*"UDLR"}
        except MalformedAction:
            num_malformed += 1
        slowest = max(slowest, time.thread_time() - began)
    assert slowest < 1.0
    assert 5_000 < num_malformed < 9_900
