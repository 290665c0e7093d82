"""Over all families: a test problem shows no agent what a train problem shows, and does not ask what one asks."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from components.environments.registry import family, family_options
from components.schema import Problem
from tests.components.environments.social.games import ALONE
from tests.components.environments.test_parser_bounds import AnyTools

NUM_TRAIN, NUM_TEST = 80, 40
EVERY: list[tuple[str, dict[str, Any]]] = [
    ("plan_path", {"size": 4, "min_distance": 2, "max_distance": 6, "max_moves": 6}),
    ("sokoban", {"size": 5, "min_distance": 3, "max_distance": 8, "max_moves": 8}),
    ("sudoku", {"size": 4, "num_blanks": 4}),
    ("blocksworld", {"num_blocks": 3, "max_distance": 4, "max_moves": 4}),
    ("eight_queens", {"size": 6, "num_free": 3}),
    *(("code", {"dataset": "procedural", "levels": [level]}) for level in (0, 2)),
    ("math", {"dataset": "procedural", "level": 0}),
    ("math", {"dataset": "procedural", "level": 0, "prose": True}),
    *(("search", {"dataset": "procedural", "level": level}) for level in (0, 1)),
    *((name, {"level": level}) for name in ("shop", "calendar", "file_tree") for level in (0, 2)),
]


def task_in_words(payload: Mapping[str, Any]) -> str:
    """What a made-up program shall compute, without how it is given its input."""
    statement = str(payload["statement"])
    return statement.partition(" that returns ")[2] or statement.partition("Print ")[2]


ASKED: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "plan_path": lambda payload: [payload["rows"], payload["goal"]],
    "sokoban": lambda payload: [payload["rows"], payload["goals"]],
    "sudoku": lambda payload: payload["rows"],
    "blocksworld": lambda payload: payload["goal"],
    "eight_queens": lambda payload: payload["rows"],
    "code": task_in_words,
    "math": lambda payload: payload["expression"],
    "search": lambda payload: [payload["hops"]],
    "shop": lambda payload: sorted(payload["wanted"]),
    "calendar": lambda payload: sorted(json.dumps(goal, sort_keys=True) for goal in payload["goals"]),
    "file_tree": lambda payload: sorted(path.rpartition("/")[2] for path, file in payload["nodes"] if file),
}
"""What decides the right answer, told from the payload alone."""


def prompts(name: str, problem: Problem) -> set[tuple[str, str]]:
    """What each agent reads in two turns of expert play."""
    chosen = family(name)
    env, seen = chosen.build(problem, AnyTools()), set()
    for _ in range(2):
        for role in chosen.roles:
            seen.add((role, env.observe(role).state))
            env.apply(role, chosen.expert_action(env.position, role))
    return seen


def test_every_family_is_looked_at() -> None:
    assert {name for name, _ in EVERY} == set(ASKED) == set(ALONE)


@pytest.mark.parametrize(("name", "options"), EVERY, ids=lambda value: value if isinstance(value, str) else "")
def test_no_prompt_and_no_question_is_in_both_splits(name: str, options: dict[str, Any]) -> None:
    chosen, checked = family(name), family_options(name, options)

    @settings(max_examples=2, deadline=None, phases=[Phase.generate])  # nothing to shrink in a seed
    @given(seed=st.integers(0, 2**32))
    def disjoint(seed: int) -> None:
        train = [chosen.problem(checked, split="train", index=i, seed=seed) for i in range(NUM_TRAIN)]
        test = [chosen.problem(checked, split="test", index=i, seed=0) for i in range(NUM_TEST)]
        asked = [{json.dumps(ASKED[name](problem.payload)) for problem in side} for side in (train, test)]
        assert all(asked)
        assert not asked[0] & asked[1]
        read = [set().union(*(prompts(name, problem) for problem in side)) for side in (train, test)]
        assert all(read)
        assert not read[0] & read[1]

    disjoint()
