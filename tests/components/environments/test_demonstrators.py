"""Who demonstrates an environment, and what is said where nobody does."""

import pytest

from components.environments.base import Demonstrator, alphabet_of, demonstrator
from components.environments.registry import FAMILIES, family, family_options
from components.errors import ConfigurationError
from tests.components.environments.bare import bare


@pytest.mark.parametrize("name", FAMILIES)
def test_every_built_in_environment_can_be_demonstrated(name: str) -> None:
    chosen, options = family(name), family_options(name, {})
    assert demonstrator(chosen) is chosen
    assert isinstance(chosen, Demonstrator)
    assert alphabet_of(chosen, options) == chosen.alphabet(options) != ""


def test_what_asks_for_a_demonstrator_names_the_environment_and_the_remedy() -> None:
    silent = bare(family("plan_path"))
    assert not isinstance(silent, Demonstrator)
    assert alphabet_of(silent, family_options("plan_path", {})) == ""
    with pytest.raises(ConfigurationError, match=r"'plan_path' has no expert.*policies\.<name>\.base") as caught:
        demonstrator(silent)
    assert "\n" not in str(caught.value)
