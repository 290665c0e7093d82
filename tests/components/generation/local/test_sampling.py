import math
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.generation.local.sampling import cut_tail, draw_tokens, temper_logprobs, uniforms


def splitmix64(seed: int, num_tokens: int) -> list[int]:
    """The published algorithm in Python integers."""
    state, words = seed, []
    for _ in range(num_tokens):
        state = (state + 0x9E3779B97F4A7C15) % 2**64
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        words.append(z ^ (z >> 31))
    return words


def test_the_stream_of_state_zero_begins_with_the_published_word() -> None:
    assert splitmix64(0, 1) == [0xE220A8397B1DCDAF]
    assert uniforms([0], 1).tolist() == [[(0xE220A8397B1DCDAF >> 11) / 2**53]]


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=5), st.integers(1, 7))
def test_uniforms_follow_the_reference_and_stay_below_one(seeds: list[int], num_tokens: int) -> None:
    expected = [[(word >> 11) / 2**53 for word in splitmix64(seed, num_tokens)] for seed in seeds]
    found = uniforms(seeds, num_tokens)
    assert found.tolist() == expected
    assert ((found >= 0) & (found < 1)).all()


def test_a_longer_stream_begins_with_the_shorter_one() -> None:
    assert np.array_equal(uniforms([5, 6], 20)[:, :3], uniforms([5, 6], 3))


def test_neighbouring_seeds_are_uncorrelated() -> None:
    numbers = uniforms(range(20_000), 2)
    assert abs(numbers.mean() - 0.5) < 0.01
    assert abs(np.corrcoef(numbers[:-1, 0], numbers[1:, 0])[0, 1]) < 0.02
    assert abs(np.corrcoef(numbers[:, 0], numbers[:, 1])[0, 1]) < 0.02


def test_the_inverse_distribution_switches_exactly_at_its_steps() -> None:
    logprobs = torch.tensor([[0.25, 0.75]]).log().expand(5, -1)
    points = torch.tensor([0.0, 0.2, 0.25, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert draw_tokens(logprobs, points, torch.zeros(5, dtype=torch.bool)).tolist() == [0, 0, 1, 1, 1]


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    logprobs = torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).log().expand(1002, -1)
    points = torch.cat([torch.linspace(0, 1 - 2**-53, 1000, dtype=torch.float64), torch.tensor([0.5, 0.0]).double()])
    assert set(draw_tokens(logprobs, points, torch.zeros(1002, dtype=torch.bool)).tolist()) == {1, 3}


def test_drawn_frequencies_pass_a_chi_square_test() -> None:
    probabilities = torch.tensor([0.4, 0.3, 0.2, 0.1])
    num_draws = 20_000
    points = torch.from_numpy(uniforms(range(num_draws), 1)[:, 0])
    found = draw_tokens(probabilities.log().expand(num_draws, -1), points, torch.zeros(num_draws, dtype=torch.bool))
    counts = torch.bincount(found, minlength=4).double()
    expected = probabilities.double() * num_draws
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    assert chi_square < 16.27, "the 0.1% point of chi-square with 3 degrees of freedom"


def test_greedy_rows_take_the_likeliest_beside_sampled_ones() -> None:
    logprobs = torch.tensor([[0.4, 0.6], [0.4, 0.6]]).log()
    points = torch.tensor([0.1, 0.1], dtype=torch.float64)
    assert draw_tokens(logprobs, points, torch.tensor([True, False])).tolist() == [1, 0]
    assert draw_tokens(logprobs, points, torch.tensor([True, True])).tolist() == [1, 1]


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.3, 1.0, 2.5]))
def test_tempered_logprobs_are_normalised_and_plain_at_zero(seed: int, temperature: float) -> None:
    rng = Random(seed)
    logits = [rng.uniform(-5, 5) for _ in range(6)]
    scaled = [value / (temperature or 1.0) for value in logits]
    total = math.log(sum(math.exp(value) for value in scaled))
    found = temper_logprobs(torch.tensor([logits]), torch.tensor([temperature]))[0]
    assert found.tolist() == pytest.approx([value - total for value in scaled], abs=1e-4)


@pytest.mark.parametrize("num_tokens", [256, 257, 3000])
def test_a_large_vocabulary_is_searched_to_the_very_id_of_the_whole_sum(num_tokens: int) -> None:
    rng = np.random.default_rng(num_tokens)
    weights = rng.exponential(size=(40, num_tokens)) * (rng.random((40, num_tokens)) < 0.3)
    weights[:, num_tokens // 2] += 1
    logprobs = torch.from_numpy(weights / weights.sum(axis=1, keepdims=True)).log().float()
    ends = logprobs.double().exp().cumsum(dim=1).numpy()
    ends /= ends[:, -1:]
    points = rng.random((40, 50))
    for column in points.T:
        found = draw_tokens(logprobs, torch.from_numpy(column.copy())).tolist()
        for row, point, token in zip(ends, column, found, strict=True):
            low = 0.0 if token == 0 else row[token - 1]
            assert low - 1e-6 <= point <= row[token] + 1e-6
            assert row[token] > low, "a token of probability 0"


def test_the_last_possible_uniform_of_a_large_vocabulary_is_its_last_possible_token() -> None:
    logprobs = torch.full((2, 1000), -torch.inf)
    logprobs[:, [3, 700]] = math.log(0.5)
    points = torch.tensor([0.5, 1 - 2**-53], dtype=torch.float64)
    assert draw_tokens(logprobs, points - torch.tensor([2**-53, 0])).tolist() == [3, 700]
    assert draw_tokens(logprobs, points).tolist() == [700, 700]


@given(st.lists(st.floats(0.01, 1), min_size=7, max_size=7), st.floats(0.01, 0.99))
def test_a_nucleus_is_the_fewest_most_likely_ids_that_have_its_probability(weights: list[float], top_p: float) -> None:
    """Against the definition, id by id; a row beside it with top_p 1 is whole."""
    logprobs = torch.tensor([weights, weights]).log_softmax(dim=-1)
    cut = cut_tail(logprobs, torch.tensor([top_p, 1.0], dtype=torch.float64))
    assert torch.equal(cut[1], logprobs[1])
    left = sorted(range(7), key=lambda each: -logprobs[0, each].item())
    total, kept = 0.0, []
    while total < top_p:
        kept.append(left.pop(0))
        total += logprobs[0, kept[-1]].double().exp().item()
    found = torch.isfinite(cut[0]).nonzero()[:, 0].tolist()
    assert torch.equal(cut[0, found], logprobs[0, found])
    assert found == sorted(kept) or abs(total - top_p) < 1e-6, "but for rounding"
