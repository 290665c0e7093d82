"""An advantage of one's own stands behind the same door as the built-in ones, and is checked on the way out."""

from collections.abc import Callable
from typing import Any

import pytest

from components.algorithms.registry import find_estimator
from components.errors import ConfigurationError
from tests.components.algorithms.episodes import episode
from tests.sections import choose_algorithm

Own = Callable[[str], str]
EPISODES = [episode("a", 0, "tp", num=3), episode("b", 0, "t", num=2), episode("c", 0, "")]
REWARDS: list[Any] = [((1.0, 0.0, None), (0.5, 0.5, 2.0)), ((None, 3.0),), ()]
CENTRED = """
def centred(episodes, rewards, algorithm):
    def node(rewards_K):
        known = [r for r in rewards_K if r is not None]
        return [None if r is None else (r - sum(known) / len(known)) / algorithm.epsilon for r in rewards_K]
    return [[node(rewards_K) for rewards_K in rewards_N_K] for rewards_N_K in rewards]
"""


def test_an_own_advantage_gets_rewards_and_fields_and_gives_the_same_shape(own_module: Own) -> None:
    name = f"{own_module(CENTRED)}:centred"
    found = find_estimator(name)(EPISODES, REWARDS, choose_algorithm(advantage=name, epsilon=0.5))
    assert found == [((1.0, -1.0, None), (-1.0, -1.0, 2.0)), ((None, 0.0),), ()]


def test_written_out_at_grpo_equals_the_built_in_one(own_module: Own) -> None:
    text = "from components.algorithms.normalisation import advantages\n"
    text += "def mine(e, r, a): return [advantages(rewards_N_K, a) for rewards_N_K in r]\n"
    name = f"{own_module(text)}:mine"
    algorithm = choose_algorithm()
    assert find_estimator(name)(EPISODES, REWARDS, algorithm) == find_estimator("at_grpo")(EPISODES, REWARDS, algorithm)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("return r[:-1]", r":1: the advantages: 2 entries; return one for each episode, 3"),
        ("return None", r":1: the advantages: NoneType instead of a list with an entry for each episode"),
        ("return [n[:1] for n in r]", r":1: a, episode 0: 1 entries; return one for each node, 2"),
        (
            "return [[[0.0] for k in n] for n in r]",
            r":1: a, episode 0, node 0: 1 entries; return one for each candidate, 3",
        ),
        ("return [[1.0 for k in n] for n in r]", r":1: a, episode 0, node 0: float instead of a list"),
        ("return [[['0'] * len(k) for k in n] for n in r]", r":1: .*candidate 0: str instead of a number"),
        ("return [[[float('nan')] * len(k) for k in n] for n in r]", r":1: .*candidate 0: nan is not finite"),
        ("return [[[None] * len(k) for k in n] for n in r]", r":1: .*candidate 0: NoneType instead of a number"),
        ("return [[[1.0] * len(k) for k in n] for n in r]", r":1: .*candidate 2: 1\.0, and its reward is None"),
        ("\n    return [[[q - 1 for q in k] for k in n] for n in r]", r":2: TypeError: unsupported operand"),
    ],
)
def test_a_wrong_advantage_is_one_line_with_its_file_and_line(own_module: Own, body: str, told: str) -> None:
    module = own_module(f"def mine(e, r, a): {body}\n")
    with pytest.raises(
        ConfigurationError, match=rf"^algorithm\.advantage '{module}:mine': .*{module}\.py{told}"
    ) as caught:
        find_estimator(f"{module}:mine")(EPISODES, REWARDS, choose_algorithm())
    assert "\n" not in str(caught.value)


def test_an_estimator_of_another_source_than_the_run_s_is_refused(own_module: Own) -> None:
    with pytest.raises(ConfigurationError, match="the run works with 0123; bring the same files to every host"):
        find_estimator(f"{own_module(CENTRED)}:centred", source="0123")
