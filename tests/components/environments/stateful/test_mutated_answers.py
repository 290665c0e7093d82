"""Damaged answers in worlds and puzzles: none raises, none takes a second, and a malformed one changes nothing.

Also, as trees of play need: one that is tried on a copy leaves the original as it was.
"""

import time
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from components.environments.family import Family
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from tests.components.environments.mutations import HOSTILE, damage
from tests.components.environments.stateful.test_tool_worlds import WORLDS

EVERYTHING = (*WORLDS, "blocksworld", "eight_queens")
NUM_PROBLEMS = 20
NUM_ANSWERS = 500
"""Of each problem: ten thousand in all."""


def open_play(name: str, index: int) -> tuple[Family, Playthrough]:
    chosen = family(name)
    options: Mapping[str, Any] = {"level": index % 4} if name in WORLDS else {}
    return chosen, chosen.build(chosen.problem(family_options(name, options), split="train", index=index, seed=2))


@pytest.mark.parametrize("name", EVERYTHING)
def test_ten_thousand_damaged_answers_neither_crash_nor_take_a_second(name: str) -> None:
    rng, num_malformed, slowest = Random(3), 0, 0.0
    for index in range(NUM_PROBLEMS):
        chosen, env = open_play(name, index)
        start = env.position
        good = {
            role: [
                chosen.expert_action(env.position, role),
                *(chosen.random_action(env.position, role, rng) for _ in range(9)),
            ]
            for role in env.roles
        }
        for number in range(NUM_ANSWERS):
            role = env.roles[number % 2]
            answer = rng.choice(HOSTILE) if number % 50 == 0 else damage(rng.choice(good[role]), rng)
            picture = env.render(color=False)
            began = time.thread_time()
            outcome = env.apply(role, answer)
            slowest = max(slowest, time.thread_time() - began)
            if outcome.error is not None:
                num_malformed += 1
                assert outcome.error.encode()
                assert outcome.team == {"solved": 0.0, "progress": 0.0}
                assert env.render(color=False) == picture
            if env.done or number % 20 == 0:
                env.position = start
    assert slowest < 1.0
    assert 5_000 < num_malformed < 9_900
