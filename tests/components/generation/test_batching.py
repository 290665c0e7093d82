import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.generation.batching import batches_of, rows_of, slots_per_row

REQUESTS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(1, 20)), min_size=1, max_size=12)


@given(REQUESTS, st.integers(50, 400))
def test_every_candidate_has_one_place_in_order_within_the_budget(
    requests: list[tuple[int, int, int]], max_tokens: int
) -> None:
    prompts = [(7,) * length for length, _, _ in requests]
    rows = rows_of(prompts, [r[1] for r in requests], [r[2] for r in requests], max_tokens=max_tokens)
    batches = list(batches_of(rows, max_tokens=max_tokens))
    assert [row for batch in batches for row in batch] == rows
    assert [c for row in rows for c in row.candidates] == list(range(sum(r[1] for r in requests)))
    for batch in batches:
        prompt = max(len(row.prompt_tokens) for row in batch)
        slots, new = max(len(row.candidates) for row in batch), max(row.max_new_tokens for row in batch)
        assert len(batch) * (prompt + slots * new) <= max_tokens


def test_a_group_shares_its_prompt_and_long_answers_do_not() -> None:
    assert slots_per_row(32, 11, max_tokens=65536) == 11
    assert slots_per_row(32, 512, max_tokens=65536) == 1
    assert slots_per_row(32, 11, max_tokens=54) == 2


def test_candidates_that_need_several_rows_are_spread_evenly() -> None:
    rows = rows_of([(7,) * 12], [8], [8], max_tokens=65536)
    assert [len(row.candidates) for row in rows] == [4, 4]


def test_one_candidate_beyond_the_budget_names_the_field_and_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match=r"generation\.max_batch_tokens 64: .* raise it to at least 70"):
        slots_per_row(60, 10, max_tokens=64)
