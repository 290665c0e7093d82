import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.generation.local.batching import batches_of, capacity_of, rows_of

REQUESTS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 12), st.integers(1, 20)), min_size=1, max_size=12)


@given(REQUESTS, st.integers(50, 4000))
def test_every_candidate_has_one_row_of_its_own_prompt(requests: list[tuple[int, int, int]], max_tokens: int) -> None:
    prompts = [(7,) * length for length, _, _ in requests]
    rows = rows_of(prompts, [r[1] for r in requests], [r[2] for r in requests])
    owner = [prompt for prompt, (_, count, _) in zip(prompts, requests, strict=True) for _ in range(count)]
    limit = [new for _, count, new in requests for _ in range(count)]
    assert [row.prompt_tokens for row in rows] == list(dict.fromkeys(prompts))
    assert sorted(c for row in rows for c in row.candidates) == list(range(len(owner)))
    for row in rows:
        assert {owner[c] for c in row.candidates} == {row.prompt_tokens}
        assert list(row.candidates) == sorted(row.candidates)
        assert row.max_new_tokens == max(limit[c] for c in row.candidates)


@given(REQUESTS, st.integers(50, 4000))
def test_batches_hold_all_rows_and_stay_within_the_budget(
    requests: list[tuple[int, int, int]], max_tokens: int
) -> None:
    prompts = [(number,) * length for number, (length, _, _) in enumerate(requests)]
    rows = rows_of(prompts, [r[1] for r in requests], [r[2] for r in requests])
    batches = batches_of(rows, max_tokens=max_tokens)
    assert sorted(row.candidates for batch in batches for row in batch) == sorted(row.candidates for row in rows)
    for batch in batches:
        capacity = capacity_of(batch, max_tokens=max_tokens)
        prompts, answers = capacity.num_prompts * capacity.prompt_columns, capacity.num_places * capacity.answer_columns
        assert prompts + answers <= max_tokens
        assert capacity.num_prompts >= 1
        assert capacity.num_places >= 1
        assert capacity.prompt_columns == max(len(row.prompt_tokens) for row in batch)
        assert capacity.answer_columns == max(row.max_new_tokens for row in batch)
        assert len(batches) == 1 or 2 * min(r.num_tokens for r in batch) >= max(r.num_tokens for r in batch)


def test_what_fits_at_once_is_one_batch_in_the_given_order() -> None:
    rows = rows_of([(1,) * 9, (2,) * 100, (3,) * 30], [2, 2, 2], [4, 50, 4])
    assert batches_of(rows, max_tokens=600) == [rows]
    assert [len(batch) for batch in batches_of(rows, max_tokens=599)] == [1, 1, 1]


def test_a_small_budget_holds_more_prompts_than_fill_its_places() -> None:
    rows = rows_of([(number,) * 20 for number in range(100)], [8] * 100, [10] * 100)
    everything = capacity_of(rows, max_tokens=10_000)
    assert (everything.num_prompts, everything.num_places) == (100, 800)
    capacity = capacity_of(rows, max_tokens=1200)
    assert (capacity.num_prompts, capacity.num_places) == (20, 80)


def test_a_group_larger_than_the_budget_keeps_its_prompt_and_waits_for_places() -> None:
    (row,) = rows_of([(7,) * 40], [8], [10])
    capacity = capacity_of([row], max_tokens=64)
    assert (capacity.num_prompts, capacity.num_places) == (1, 2)


def test_one_candidate_beyond_the_budget_names_the_field_and_the_remedy() -> None:
    rows = rows_of([(7,) * 60], [1], [10])
    with pytest.raises(ConfigurationError, match=r"generation\.max_batch_tokens 64: .* raise it to at least 70"):
        batches_of(rows, max_tokens=64)
