"""Suites are fixed sets of different problems, apart from each other."""

import pytest

from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from components.evaluation.suites import SUITES, suite, suite_problems
from tests.components.rollout.toy_team import ToyFamily, ToyOptions


def test_suites_of_a_real_game_are_disjoint_and_repeatable() -> None:
    game, options = family("plan_path"), family_options("plan_path", {})
    drawn = {name: suite_problems(name, game, options, num_problems=60, seed=0) for name in SUITES}
    assert drawn == {name: suite_problems(name, game, options, num_problems=60, seed=0) for name in SUITES}
    ids = {name: {problem.problem_id for problem in problems} for name, problems in drawn.items()}
    assert all(len(names) == 60 for names in ids.values())
    assert not ids["test"] & (ids["train"] | ids["train_check"])
    longer = suite_problems("test", game, options, num_problems=80, seed=0)
    assert longer[:60] == drawn["test"]
    assert suite_problems("test", game, options, num_problems=60, seed=1) != drawn["test"]


def test_equal_problems_are_taken_once() -> None:
    problems = suite_problems("train", ToyFamily(), ToyOptions(num_names=5), num_problems=5, seed=0)
    assert len({problem.problem_id for problem in problems}) == 5


def test_more_problems_than_there_are_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="only 5 different problems"):
        suite_problems("train", ToyFamily(), ToyOptions(num_names=5), num_problems=6, seed=0)


def test_an_unknown_suite_names_the_nearest() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'train_check'"):
        suite("train_chek")
    with pytest.raises(ConfigurationError, match="suites are test, train_check, train"):
        suite("zzz")
