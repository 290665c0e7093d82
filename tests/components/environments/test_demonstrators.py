"""Who shows the right answers of an environment, also from another beginning, and what is said where nobody does."""

from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from components.environments.base import Tools
from components.environments.environment import Environment
from components.environments.family import Family, require_expert
from components.environments.play import Playthrough
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from tests.components.environments.code.test_family import VARIANTS as CODE_VARIANTS
from tests.components.environments.reasoned.guessing import Guess
from tests.components.environments.social.games import ALONE
from tests.components.environments.test_contract import OwnTools


class Silent(Guess):
    expert = Environment.expert


PLAYED: list[tuple[str, Mapping[str, Any]]] = [
    *((name, {}) for name in ALONE if name != "code"),
    ("search", {"level": 1}),
    *(("code", options) for options in CODE_VARIANTS),
]


def open_play(name: str, options: Mapping[str, Any], index: int, tools: Tools) -> tuple[Family, Playthrough]:
    chosen = family(name)
    return chosen, chosen.build(
        chosen.problem(family_options(name, options), split="train", index=index, seed=7), tools
    )


def tools_of(name: str, options: Mapping[str, Any]) -> OwnTools:
    return OwnTools(family(name).retriever(family_options(name, options)))


@pytest.mark.parametrize(("name", "options"), [each for each in PLAYED if each[1] != {"level": 1}])
def test_noise_makes_the_experts_worse_and_none_leaves_them_perfect(name: str, options: Mapping[str, Any]) -> None:
    tools, solved = tools_of(name, options), {}
    options = {"level": 0, **options} if name in ("shop", "calendar", "file_tree") else options
    num_problems = 16 if name == "code" else 80
    for noise in (0.0, 0.4, 1.0):
        rng, solved[noise] = Random(2), 0
        for index in range(num_problems):
            chosen, env = open_play(name, options, index, tools)
            for role in env.roles * (2 if name == "search" else 1):
                if not env.done:
                    answer = chosen.noisy_expert_action(env.position, role, noise=noise, rng=rng)
                    assert env.apply(role, answer).error is None
            solved[noise] += env.success
    assert solved[0.0] == num_problems
    assert solved[0.0] > solved[0.4] > solved[1.0]


@pytest.mark.parametrize(("name", "options"), PLAYED)
def test_a_scrambled_beginning_is_open_solvable_and_varied(name: str, options: Mapping[str, Any]) -> None:
    tools, rng, seen = tools_of(name, options), Random(3), set()
    num_tries, num_different = (12, 5) if name == "code" else (40, 20)
    for index in range(num_tries):
        chosen, env = open_play(name, options, index % 4, tools)
        env.position = chosen.scramble(env.position, rng, tools)
        assert not env.success
        assert not env.done
        seen.add(tuple(env.observe(role).state for role in env.roles))
        for role in env.roles * 6:
            if not env.done:
                assert env.apply(role, chosen.expert_action(env.position, role)).error is None
        assert env.success
    assert len(seen) > num_different


@pytest.mark.parametrize("name", ALONE)
def test_every_built_in_environment_has_an_expert(name: str) -> None:
    chosen, options = family(name), family_options(name, {})
    assert require_expert(chosen) is chosen
    assert chosen.has_expert
    assert chosen.alphabet(options)


def test_what_asks_for_an_expert_names_the_environment_and_the_remedy() -> None:
    guess, silent = Family("guess", Guess()), Family("silent", Silent())
    assert (guess.has_expert, silent.has_expert) == (True, False)
    with pytest.raises(ConfigurationError, match=r"'silent' has no expert.*policies\.<name>\.base") as caught:
        require_expert(silent)
    assert "\n" not in str(caught.value)
