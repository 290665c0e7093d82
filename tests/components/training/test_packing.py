from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.identity import GroupKey
from components.schema import TrainGroup
from components.training.packing import (
    PADDING,
    MicroBatch,
    empty_micro_batch,
    pack_groups,
    packed_length,
    without_truncated,
)

_tokens = st.integers(0, 9)


@st.composite
def _groups(draw: st.DrawFn) -> list[TrainGroup]:
    groups = []
    for number in range(draw(st.integers(0, 6))):
        completions = draw(st.lists(st.lists(_tokens, min_size=0, max_size=6).map(tuple), min_size=1, max_size=5))
        by_choice = draw(st.booleans())
        completions = completions * 2 if by_choice else completions
        groups.append(
            TrainGroup(
                group=GroupKey(problem_id=str(number), episode=0, turn=0, agent="a"),
                prompt_tokens=tuple(draw(st.lists(_tokens, min_size=1, max_size=8))),
                completions_K_T=tuple(completions),
                sampler_logprobs_K_T=tuple(tuple(-float(t) for t in c) for c in completions),
                advantages_K=tuple(float(k) for k in range(len(completions))),
                choices=tuple(sorted({each for each in completions if each})) if by_choice else (),
            )
        )
    return groups


def _context(batch: MicroBatch, token: int) -> list[int]:
    """The tokens that the column predicting `token` can see, in order of position: read back from the packed arrays."""
    row, column = batch.rows_N[token], batch.columns_N[token]
    segments = batch.segments_S_T[row]
    seen = (segments == 0) | (segments == segments[column])
    columns = [c for c in np.flatnonzero(seen) if c <= column]
    columns.sort(key=lambda c: batch.positions_S_T[row, c])
    assert [int(batch.positions_S_T[row, c]) for c in columns] == list(range(len(columns)))
    return [int(batch.tokens_S_T[row, c]) for c in columns]


@settings(deadline=None)
@given(groups=_groups(), budget=st.integers(14, 80), share=st.booleans())
def test_every_token_is_packed_once_behind_exactly_its_own_context(
    groups: list[TrainGroup], budget: int, share: bool
) -> None:
    seen = []
    for batch in pack_groups(groups, tokens_per_micro_batch=budget, share_prompts=share):
        assert batch.tokens_S_T.size <= budget
        for token in range(batch.num_tokens):
            g, k, t = (int(a[token]) for a in (batch.groups_N, batch.candidates_N, batch.offsets_N))
            group = groups[g]
            assert batch.targets_N[token] == group.completions_K_T[k][t]
            assert batch.advantages_N[token] == group.advantages_K[k]
            assert batch.sampler_logprobs_N[token] == group.sampler_logprobs_K_T[k][t]
            assert batch.lengths_N[token] == len(group.completions_K_T[k])
            assert _context(batch, token) == [*group.prompt_tokens, *group.completions_K_T[k][:t]]
            seen.append((g, k, t))
    wanted = [
        (g, k, t) for g, group in enumerate(groups) for k, c in enumerate(group.completions_K_T) for t in range(len(c))
    ]
    assert sorted(seen) == wanted


@settings(deadline=None)
@given(groups=_groups(), budget=st.integers(14, 80), share=st.booleans())
def test_completions_are_numbered_within_a_micro_batch_and_never_cut(
    groups: list[TrainGroup], budget: int, share: bool
) -> None:
    for batch in pack_groups(groups, tokens_per_micro_batch=budget, share_prompts=share):
        named = list(zip(batch.groups_N.tolist(), batch.candidates_N.tolist(), strict=True))
        number = {name: index for index, name in enumerate(dict.fromkeys(named))}
        assert batch.completions_N.tolist() == [number[name] for name in named]
        for name in number:
            assert named.count(name) == len(groups[name[0]].completions_K_T[name[1]])


def test_without_truncated_keeps_the_others_with_what_belongs_to_them(make_groups) -> None:
    first, second, third = make_groups(3)
    marked = [replace(first, truncated_K=(False, True, False, True)), second, replace(third, truncated_K=(True,) * 4)]
    kept, untouched = without_truncated(marked)
    assert untouched == second
    assert kept == replace(
        first,
        completions_K_T=(first.completions_K_T[0], first.completions_K_T[2]),
        sampler_logprobs_K_T=(first.sampler_logprobs_K_T[0], first.sampler_logprobs_K_T[2]),
        advantages_K=(first.advantages_K[0], first.advantages_K[2]),
    )


def test_the_documented_example(make_groups) -> None:
    group = TrainGroup(
        group=GroupKey(problem_id="x", episode=0, turn=0, agent="a"),
        prompt_tokens=(5, 6),
        completions_K_T=((7, 8), (9,)),
        sampler_logprobs_K_T=((-1.0, -2.0), (-3.0,)),
        advantages_K=(1.0, -1.0),
    )
    (batch,) = pack_groups([group], tokens_per_micro_batch=64, share_prompts=True)
    assert batch.tokens_S_T.tolist() == [[5, 6, 7]]
    assert batch.positions_S_T.tolist() == [[0, 1, 2]]
    assert batch.segments_S_T.tolist() == [[0, 0, 1]]
    assert batch.targets_N.tolist() == [7, 8, 9]
    assert batch.columns_N.tolist() == [1, 2, 1]
    assert batch.offsets_N.tolist() == [0, 1, 0]
    assert packed_length(group) == 3


def test_a_group_that_is_too_long_is_split_and_repeats_its_prompt(make_groups) -> None:
    (group,) = make_groups(1, group_size=8, longest=7)
    budget = packed_length(group) - 1
    batches = pack_groups([group], tokens_per_micro_batch=budget, share_prompts=True)
    prompt = list(group.prompt_tokens)
    rows = [row[: len(prompt)].tolist() for batch in batches for row in batch.tokens_S_T]
    assert rows == [prompt, prompt]


@pytest.mark.parametrize(("num_prompt_tokens", "widest"), [(10, 512), (200, 800), (2000, 4096)])
def test_a_sequence_stays_short_beside_its_prompt(num_prompt_tokens: int, widest: int) -> None:
    group = TrainGroup(
        group=GroupKey(problem_id="x", episode=0, turn=0, agent="a"),
        prompt_tokens=(1,) * num_prompt_tokens,
        completions_K_T=((2,) * 21,) * 400,
        sampler_logprobs_K_T=((-1.0,) * 21,) * 400,
        advantages_K=(1.0,) * 400,
    )
    widths = [b.tokens_S_T.shape[1] for b in pack_groups([group], tokens_per_micro_batch=4096, share_prompts=True)]
    assert widest - 20 < max(widths) <= widest


def test_shared_prompts_need_far_fewer_cells(make_groups) -> None:
    groups = make_groups(20, group_size=8)
    cells = {
        share: sum(b.tokens_S_T.size for b in pack_groups(groups, tokens_per_micro_batch=256, share_prompts=share))
        for share in (True, False)
    }
    assert cells[True] < 0.6 * cells[False]


def test_equal_answers_by_choice_share_their_columns(make_groups) -> None:
    (group,) = make_groups(1)
    answers = ((5, 6, 7), (5, 8))
    drawn = tuple(answers[k % 2] for k in range(40))
    values = {"completions_K_T": drawn, "sampler_logprobs_K_T": drawn, "advantages_K": tuple(map(float, range(40)))}
    prompt = len(group.prompt_tokens)
    for choices, columns in ((answers, prompt + 2 + 1), ((), prompt + 20 * (2 + 1))):
        chosen = replace(group, choices=choices, **values)
        (batch,) = pack_groups([chosen], tokens_per_micro_batch=4096, share_prompts=True)
        assert batch.tokens_S_T.shape == (1, columns)
        assert (packed_length(chosen), batch.num_tokens) == (columns, 100)


def test_micro_batches_are_even(make_groups) -> None:
    sizes = [b.tokens_S_T.size for b in pack_groups(make_groups(40), tokens_per_micro_batch=300, share_prompts=True)]
    assert len(sizes) > 2
    assert min(sizes) > 0.5 * max(sizes)


def test_a_completion_that_cannot_fit_is_refused_by_the_name_of_the_setting(make_groups) -> None:
    with pytest.raises(ConfigurationError, match=r"training\.tokens_per_micro_batch 8: group p0"):
        pack_groups(make_groups(3, longest=20), tokens_per_micro_batch=8, share_prompts=True)


def test_an_empty_micro_batch_holds_no_token_and_one_cell() -> None:
    batch = empty_micro_batch()
    assert batch.num_tokens == 0
    assert batch.tokens_S_T.size == 1
    assert PADDING not in batch.segments_S_T
