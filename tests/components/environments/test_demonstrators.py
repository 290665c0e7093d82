"""Who shows the right answers of an environment, and what is said where nobody does."""

import pytest

from components.environments.environment import Environment
from components.environments.family import Family, require_expert, scratch_alphabet
from components.environments.registry import family, family_options
from components.errors import ConfigurationError
from tests.components.environments.reasoned.guessing import Guess
from tests.components.environments.social.games import ALONE


class Silent(Guess):
    expert = Environment.expert


@pytest.mark.parametrize("name", ALONE)
def test_every_built_in_environment_has_an_expert(name: str) -> None:
    chosen, options = family(name), family_options(name, {})
    assert require_expert(chosen) is chosen
    assert chosen.has_expert
    assert scratch_alphabet(chosen, options) == chosen.alphabet(options) != ""


def test_what_asks_for_an_expert_names_the_environment_and_the_remedy() -> None:
    guess, silent = Family("guess", Guess()), Family("silent", Silent())
    assert (guess.has_expert, silent.has_expert) == (True, False)
    assert scratch_alphabet(guess, guess.options_type()) != scratch_alphabet(silent, silent.options_type()) == ""
    with pytest.raises(ConfigurationError, match=r"'silent' has no expert.*policies\.<name>\.base") as caught:
        require_expert(silent)
    assert "\n" not in str(caught.value)
