from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.errors import ConfigurationError
from components.identity import GroupKey
from components.schema import TrainGroup
from components.training.packing import (
    MicroBatch,
    empty_micro_batch,
    measure_packed_length,
    pack_groups,
    without_truncated,
)

_tokens = st.integers(0, 9)


def _group(prompt: tuple[int, ...], completions: Any, *, name: str = "x", turn: int = 0, **values: Any) -> TrainGroup:
    """A group of problem `name`; what is not given is the same for every completion."""
    return TrainGroup(
        group=GroupKey(problem_id=name, episode=0, turn=turn, agent="a"), prompt_tokens=prompt, completions_K_T=completions,
        **{
            "sampler_logprobs_K_T": tuple((-1.0,) * len(each) for each in completions),
            "advantages_K": (1.0,) * len(completions),
            **values,
        },
    )  # fmt: skip


@st.composite
def _groups(draw: st.DrawFn) -> list[TrainGroup]:
    """Some groups. Prompts begin with each other, and with each other's completions."""
    groups: list[TrainGroup] = []
    begun: list[tuple[int, ...]] = [()]
    for number in range(draw(st.integers(0, 6))):
        completions = draw(st.lists(st.lists(_tokens, min_size=0, max_size=4).map(tuple), min_size=1, max_size=5))
        prompt = (draw(st.sampled_from(begun)) + tuple(draw(st.lists(_tokens, min_size=1, max_size=4))))[-9:]
        begun += [prompt, *(prompt + completion for completion in completions)]
        by_choice = draw(st.booleans())
        completions = completions * 2 if by_choice else completions
        values = {
            "sampler_logprobs_K_T": tuple(tuple(-float(t) for t in c) for c in completions),
            "advantages_K": tuple(float(k) for k in range(len(completions))),
            "choices": tuple(sorted({each for each in completions if each})) if by_choice else (),
        }
        groups.append(_group(prompt, tuple(completions), name=str(number), **values))
    return groups


def _context(batch: MicroBatch, token: int) -> list[int]:
    """The tokens that the column predicting `token` can see, in order of position: read back from the packed arrays."""
    row, column = batch.rows_N[token], batch.columns_N[token]
    columns = [c for c in range(column + 1) if column < batch.ends_S_T[row, c]]
    assert [int(batch.positions_S_T[row, c]) for c in columns] == list(range(len(columns)))
    return [int(batch.tokens_S_T[row, c]) for c in columns]


def _fill(batch: MicroBatch) -> np.ndarray:
    """Which cells hold a token, booleans (S, T): all on the way to a predicting one."""
    columns = np.arange(batch.tokens_S_T.shape[1])
    filled = np.zeros(batch.tokens_S_T.shape, bool)
    for row, column in zip(batch.rows_N, batch.columns_N, strict=True):
        filled[row] |= (columns <= column) & (batch.ends_S_T[row] > column)
    return filled


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
    group = _group((5, 6), ((7, 8), (9, 8), (9,)))
    (batch,) = pack_groups([group], tokens_per_micro_batch=64, share_prompts=True)
    assert batch.tokens_S_T.tolist() == [[5, 6, 7, 9]]
    assert batch.positions_S_T.tolist() == [[0, 1, 2, 2]]
    assert batch.ends_S_T.tolist() == [[4, 4, 3, 4]]
    assert batch.targets_N.tolist() == [9, 7, 8, 9, 8]
    assert batch.columns_N.tolist() == [1, 1, 2, 1, 3]
    assert batch.offsets_N.tolist() == [0, 0, 1, 0, 1]
    assert measure_packed_length(group) == 4


def test_a_group_that_is_too_long_is_split_and_repeats_its_prompt(make_groups) -> None:
    (group,) = make_groups(1, group_size=8, longest=7)
    budget = measure_packed_length(group) - 1
    batches = pack_groups([group], tokens_per_micro_batch=budget, share_prompts=True)
    prompt = list(group.prompt_tokens)
    rows = [row[: len(prompt)].tolist() for batch in batches for row in batch.tokens_S_T]
    assert rows == [prompt, prompt]


@pytest.mark.parametrize(("num_prompt_tokens", "widest"), [(10, 512), (200, 800), (2000, 4096)])
def test_a_sequence_stays_short_beside_its_prompt(num_prompt_tokens: int, widest: int) -> None:
    group = _group((1,) * num_prompt_tokens, tuple((2 + k, *(2,) * 20) for k in range(400)))
    shapes = [b.tokens_S_T.shape for b in pack_groups([group], tokens_per_micro_batch=4096, share_prompts=True)]
    assert max(width for _, width in shapes) <= widest
    assert sum(num_rows for num_rows, _ in shapes) == -(-400 // ((widest - num_prompt_tokens) // 20))


def test_shared_prompts_need_far_fewer_cells(make_groups) -> None:
    groups = make_groups(20, group_size=8)
    cells = {
        share: sum(b.tokens_S_T.size for b in pack_groups(groups, tokens_per_micro_batch=256, share_prompts=share))
        for share in (True, False)
    }
    assert cells[True] < 0.6 * cells[False]


@pytest.mark.parametrize("choices", [((5, 6, 7), (5, 8)), ()])
def test_answers_share_the_columns_that_they_begin_with(make_groups, choices: tuple[tuple[int, ...], ...]) -> None:
    (group,) = make_groups(1)
    drawn = tuple(((5, 6, 7), (5, 8))[k % 2] for k in range(40))
    values = {"completions_K_T": drawn, "sampler_logprobs_K_T": drawn, "advantages_K": tuple(map(float, range(40)))}
    chosen = replace(group, choices=choices, **values)
    (batch,) = pack_groups([chosen], tokens_per_micro_batch=4096, share_prompts=True)
    assert batch.tokens_S_T.shape == (1, len(group.prompt_tokens) + 2)
    assert (measure_packed_length(chosen), batch.num_tokens) == (batch.tokens_S_T.size, 100)


def _dialogues(num: int, turns: int, *, turn: int = 40, instructions: int = 100, answers: int = 4) -> list[TrainGroup]:
    """Groups of dialogues that share instructions; each goes on from the first answer of the turn before."""
    groups = []
    for dialogue in range(num):
        prompt: tuple[int, ...] = (1,) * instructions
        for number in range(turns):
            prompt += (100 + dialogue, *(2,) * (turn - 1))
            completions = tuple((10 + k, *(3,) * 9) for k in range(answers))
            groups.append(_group(prompt, completions, name=str(dialogue), turn=number))
            prompt += completions[0]
    return groups


def test_groups_share_instructions_and_what_was_said_before() -> None:
    (batch,) = pack_groups(_dialogues(2, 2), tokens_per_micro_batch=4096, share_prompts=True)
    new = 2 * 2 * (40 + 4 * 9)
    goes_on = 2 * 1  # the last token of an answer is fed where a dialogue goes on from it
    assert batch.tokens_S_T.shape == (1, 100 + new + goes_on)


def test_groups_that_share_little_have_rows_of_their_own() -> None:
    """A third of the longer prompt is the least: 100 of 300, but not of 301."""
    for length, num_rows in ((200, 1), (201, 2)):
        batches = pack_groups(_dialogues(2, 1, turn=length), tokens_per_micro_batch=4096, share_prompts=True)
        assert sum(len(batch.tokens_S_T) for batch in batches) == num_rows


def test_rows_stay_within_four_prompts_and_are_even() -> None:
    """Shared beginnings save what they can beside rows of that length."""
    groups = _dialogues(60, 3, instructions=160)
    batches = pack_groups(groups, tokens_per_micro_batch=8192, share_prompts=True)
    lengths = [int(row.max()) for batch in batches for row in np.where(_fill(batch), batch.ends_S_T, 0)]
    longest = 4 * max(len(group.prompt_tokens) for group in groups)
    assert max(lengths) <= longest
    assert min(lengths) > 0.8 * max(lengths)
    alone, once = sum(map(measure_packed_length, groups)), 160 + 60 * 3 * (40 + 4 * 9) + 60 * 2
    assert sum(lengths) < alone - 0.85 * (alone - once)


def test_a_group_is_not_divided_where_others_may_be() -> None:
    for batch in pack_groups(_dialogues(60, 1), tokens_per_micro_batch=8192, share_prompts=True):
        of_group = {(int(g), int(row)) for g, row in zip(batch.groups_N, batch.rows_N, strict=True)}
        assert len(of_group) == len({g for g, _ in of_group})


def test_rows_that_are_much_shorter_are_not_padded() -> None:
    long, short = _dialogues(1, 1, turn=400), _dialogues(1, 1, turn=40, instructions=10)
    batches = pack_groups([*long, *short], tokens_per_micro_batch=4096, share_prompts=True)
    assert [batch.tokens_S_T.shape for batch in batches] == [(1, 536), (1, 86)]
    near = _dialogues(1, 1, turn=330, instructions=10)
    (batch,) = pack_groups([*long, *near], tokens_per_micro_batch=4096, share_prompts=True)
    assert batch.tokens_S_T.shape == (2, 536)


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
    assert batch.ends_S_T.tolist() == [[1]]
