"""Names and options, and how a wrong one is explained."""

import pytest

from components.environments.registry import FAMILIES, family, family_options
from components.errors import ConfigurationError

GAMES = ("plan_path", "sokoban", "sudoku")


def test_each_family_is_found_under_its_own_name() -> None:
    assert all(family(name).name == name for name in FAMILIES)
    assert all(family(name).roles == ("tool_agent", "plan_agent") for name in GAMES)


def test_a_family_is_made_once() -> None:
    assert family("sokoban") is family("sokoban")


def test_an_unknown_environment_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match=r"environment\.name 'sudoko': .*did you mean 'sudoku'"):
        family("sudoko")
    with pytest.raises(ConfigurationError, match=r"valid names: .*plan_path, .*sokoban, .*sudoku"):
        family("zzz")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("plan_path", {"sise": 5}, r"environment\.options\.sise: unknown key \(got 5\); did you mean 'size'"),
        ("plan_path", {"size": 1}, r"environment\.options\.size: .*greater than or equal to 3 \(got 1\)"),
        ("plan_path", {"min_distance": 8, "max_distance": 5}, "min_distance 8 exceeds max_distance 5; lower it"),
        ("plan_path", {"min_distance": 1}, "greater than or equal to 2"),
        ("sokoban", {"boxes": 2}, "did you mean 'num_boxes'"),
        ("sokoban", {"min_distance": 20}, "exceeds max_distance 16"),
        ("sudoku", {"size": 8}, r"4, 6, 9 or 16 \(got 8\)"),
        ("sudoku", {"size": 4, "num_blanks": 12}, "use at most 11"),
        ("sudoku", {"num_clues": 5, "size": "x"}, r"(?s)num_clues.*size|size.*num_clues"),
    ],
)
def test_a_wrong_option_is_explained(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        family_options(name, options)


def test_options_that_allow_no_puzzle_are_an_error_and_not_an_endless_search() -> None:
    options = family_options("plan_path", {"size": 3, "min_distance": 30, "max_distance": 40})
    with pytest.raises(ConfigurationError, match=r"'plan_path' with the options .* no problem of the train split in"):
        family("plan_path").problem(options, split="train", index=0, seed=0)
