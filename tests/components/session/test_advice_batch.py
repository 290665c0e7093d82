"""What a language model learns from: its own draws that were played, each with the advantage of its decision."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.hybrid.language_model import Draw
from components.methods.hybrid.play import advice_batch
from components.schema import PolicyVersion, TrainBatch

VERSION = PolicyVersion(policy="player", step=2, weights_digest="0" * 64)


def draw(number: int, prompt: int) -> Draw:
    return Draw(
        prompt_tokens=(prompt,), choices=((1, 0), (2, 0)), tokens=(1 + number % 2, 0), logprobs=(-0.5 - number, 0.0)
    )


def batch(draws: list[Draw], draws_T_N: list[list[int | None]], advantages: list[list[float]]) -> TrainBatch:
    values = np.array(advantages, np.float32)
    return advice_batch(draws, draws_T_N, values, agent="player", step=2, version=VERSION)


def test_two_draws_by_hand() -> None:
    draws = [draw(0, 7), draw(1, 7), draw(2, 8)]
    made = batch(draws, [[0, None], [None, 1]], [[3.0, 9.0], [9.0, 1.0]])
    (group,) = made.groups
    assert group.prompt_tokens == (7,)
    assert group.completions_K_T == ((1, 0), (2, 0))
    assert group.sampler_logprobs_K_T == ((-0.5, 0.0), (-1.5, 0.0))
    assert group.advantages_K == pytest.approx((1.0, -1.0), abs=1e-5)
    assert group.choices == ((1, 0), (2, 0))
    assert (made.policy, made.version, made.metrics) == ("player", VERSION, {"num_draws": 2.0, "mean_advantage": 2.0})


@given(st.lists(st.tuples(st.floats(-5, 5, width=32), st.integers(0, 2)), max_size=12))
def test_rows_are_centred_and_those_without_a_difference_teach_nothing(cells: list[tuple[float, int]]) -> None:
    draws = [draw(number, prompt) for number, (_, prompt) in enumerate(cells)]
    made = batch(draws, [[number] for number in range(len(cells))], [[value] for value, _ in cells])
    values = np.array([value for value, _ in cells], np.float32).astype(np.float64)
    if not len(values) or values.std() == 0:
        assert made.groups == ()
        assert made.num_groups_without_signal == len(cells)
        return
    found = {
        tokens: advantage
        for group in made.groups
        for tokens, advantage in zip(group.sampler_logprobs_K_T, group.advantages_K, strict=True)
    }
    wanted = (values - values.mean()) / (values.std() + 1e-6)
    assert [found[each.logprobs] for each in draws] == pytest.approx(wanted.tolist())
