"""The shipped puzzles: solvable, distinct, fair between splits, and small where they are to be small."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from components.environments.base import Split, Tools
from components.environments.code.options import LEVELS, CodeOptions
from components.environments.code.problem import KINDS, CodeProblem
from components.environments.code.procedural.generate import make_problem, puzzles_of
from components.environments.code.programs import execution, verdict
from components.environments.registry import family
from components.environments.shared.text import PRINTABLE

OPTIONS = CodeOptions(num_hidden_tests=10)
EVERY = [one for level in LEVELS for one in puzzles_of(level)]


def procedural_problem(options: CodeOptions, *, split: Split, index: int, seed: int) -> CodeProblem:
    return CodeProblem.model_validate(family("code").problem(options, split=split, index=index, seed=seed).payload)


def draw_problem(index: int, kind: Any, num: int) -> CodeProblem | None:
    one, rng = EVERY[index], Random(num)
    return make_problem(one, {name: draw.draw(rng) for name, draw in one.parameters.items()}, kind, OPTIONS)


def test_there_are_dozens_of_puzzles_on_every_level() -> None:
    assert min(Counter(one.level for one in EVERY).values()) >= 12
    assert len(EVERY) >= 50


@pytest.mark.parametrize("index", range(len(EVERY)), ids=[one.name for one in EVERY])
def test_the_reference_program_gives_what_the_puzzle_computes(index: int, host_tools: Any) -> None:
    """The tests come from calling the puzzle, the reference is its source with the parameters written in."""
    for kind in KINDS:
        made = [problem for num in range(6) if (problem := draw_problem(index, kind, num)) is not None]
        assert len(made) >= 4
        for problem in made:
            assert problem.reference is not None
            for case in (*problem.visible, *problem.hidden, *problem.spare):
                result = host_tools.run(execution(problem, problem.reference, case))
                assert verdict(result, case, kind).passed, (problem, case, result)


def test_some_references_of_every_level_pass_in_a_real_sandbox(sandbox_tools: Tools) -> None:
    for level in LEVELS:
        problem = procedural_problem(CodeOptions(levels=(level,)), split="train", index=level, seed=1)
        assert problem.reference is not None
        for case in problem.hidden:
            assert verdict(sandbox_tools.run(execution(problem, problem.reference, case)), case, problem.kind).passed


def test_level_0_is_small_enough_for_a_model_of_characters() -> None:
    for index in range(400):
        problem = procedural_problem(CodeOptions(levels=(0,)), split="train", index=index, seed=3)
        assert len(problem.statement) < 60
        assert len(problem.reference or "") <= 62


def test_tests_are_different_and_no_constant_passes_the_hidden_ones() -> None:
    for index in range(300):
        options = CodeOptions(levels=LEVELS, num_visible_tests=3)
        problem = procedural_problem(options, split="test", index=index, seed=2)
        cases = (*problem.visible, *problem.hidden, *problem.spare)
        assert len({case.given for case in cases}) == len(cases) == 3 + 6 + 3
        assert len({case.expected for case in problem.hidden}) > 1
        assert all({*case.given, *case.expected, *problem.statement} <= {*PRINTABLE} for case in cases)
        assert all(case.expected.strip() for case in cases)


def test_a_problem_follows_from_its_arguments_and_its_tests_from_its_statement() -> None:
    options = CodeOptions()
    problems = [
        procedural_problem(options, split="train", index=index, seed=seed) for seed in (0, 1) for index in range(400)
    ]
    assert problems[5] == procedural_problem(options, split="train", index=5, seed=0)
    by_statement: dict[str, CodeProblem] = {}
    for problem in problems:
        assert by_statement.setdefault(problem.statement, problem) == problem
    assert len(by_statement) > 180


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_has_enough_different_problems_for_an_evaluation(level: int) -> None:
    options, seen = CodeOptions(levels=(level,)), set()
    for index in range(3000):
        seen.add(procedural_problem(options, split="test", index=index, seed=0).statement)
        if len(seen) == 400:
            return
    raise AssertionError(f"{len(seen)} problems")


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_levels_are_as_asked(kind: Any) -> None:
    check: Callable[[int], CodeProblem] = lambda index: procedural_problem(  # noqa: E731
        CodeOptions(levels=(2,), kinds=(kind,)), split="train", index=index, seed=0
    )
    assert {check(index).kind for index in range(20)} == {kind}
