from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from components.generation.local.batching import Capacity, Row
from components.generation.local.schedule import Schedule


def rows_with(counts: list[int]) -> list[Row]:
    firsts = np.cumsum([0, *counts]).tolist()
    return [
        Row(prompt_tokens=(number,), candidates=tuple(range(first, first + count)), max_new_tokens=20)
        for number, (first, count) in enumerate(zip(firsts, counts, strict=False))
    ]


def room(num_prompts: int, num_places: int, candidates_per_prompt: int = 99) -> Capacity:
    return Capacity(
        num_prompts=num_prompts,
        num_places=num_places,
        candidates_per_prompt=candidates_per_prompt,
        prompt_columns=1,
        answer_columns=20,
    )


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=9),
    st.tuples(st.integers(1, 5), st.integers(1, 12), st.integers(1, 5)),
    st.integers(0, 2**32),
)
def test_every_candidate_plays_all_its_positions_in_order_beside_its_own_prompt(
    counts: list[int], limits: tuple[int, int, int], seed: int
) -> None:
    rng, rows = Random(seed), rows_with(counts)
    owner = [number for number, count in enumerate(counts) for _ in range(count)]
    length = [rng.randint(1, 6) for _ in owner]
    schedule = Schedule(rows, room(*limits))
    played: dict[int, list[int]] = {}
    computed: list[int] = []
    held: list[int] = []
    who: list[int] = []
    for _ in range(sum(length) + 1):
        admission = schedule.admit()
        held, who = (
            held + admission.rows,
            who + [candidate for candidate in schedule.candidate_M.tolist() if candidate not in played],
        )
        computed += admission.rows
        assert schedule.row_H.tolist() == held
        assert schedule.candidate_M.tolist() == who
        assert len(held) <= limits[0]
        assert len(who) <= limits[1]
        if not who:
            break
        for candidate, prompt, position in zip(who, schedule.prompt_M, schedule.position_M.tolist(), strict=True):
            assert held[prompt] == owner[candidate]
            played.setdefault(candidate, []).append(position)
        slot_M, num_slots = schedule.slots(len(who))
        assert len(set(zip(schedule.prompt_M.tolist(), slot_M.tolist(), strict=True))) == len(who)
        assert slot_M.max() + 1 == num_slots <= limits[2]
        schedule.position_M += 1
        finished_M = np.array([len(played[candidate]) == length[candidate] for candidate in who])
        places, prompts = schedule.leave(finished_M)
        who, held = follow(who, places, schedule.num_live), follow(held, prompts, len(schedule.row_H))
    assert played == {candidate: list(range(length[candidate])) for candidate in range(len(owner))}
    assert computed == list(range(len(rows))), "each prompt comes in once, in order"


def follow(tracked: list[int], moves: tuple[np.ndarray, np.ndarray], left: int) -> list[int]:
    """What one who copies as told holds afterwards."""
    array = np.array(tracked, dtype=np.int64)
    array[moves[0]] = array[moves[1]]
    return array[:left].tolist()


def test_a_place_is_filled_again_in_the_very_next_step() -> None:
    schedule = Schedule(rows_with([3, 2]), room(2, 2))
    assert schedule.admit().joining == [(0, 2)]
    schedule.leave(np.array([True, False]))
    admission = schedule.admit()
    assert (admission.rows, admission.joining) == ([], [(0, 1)])
    assert schedule.candidate_M.tolist() == [1, 2]
    schedule.leave(np.array([True, True]))
    admission = schedule.admit()
    assert (admission.rows, admission.joining) == ([1], [(1, 2)])


def test_a_prompt_goes_when_its_last_candidate_has_gone_and_not_before() -> None:
    schedule = Schedule(rows_with([2, 1, 1]), room(3, 4))
    schedule.admit()
    _, (to, origin) = schedule.leave(np.array([True, False, True, False]))
    assert schedule.row_H.tolist() == [0, 2]
    assert (to.tolist(), origin.tolist()) == ([1], [2])
    assert schedule.candidate_M.tolist() == [3, 1]
    assert schedule.prompt_M.tolist() == [1, 0]


def test_one_prompt_has_no_more_live_candidates_than_allowed() -> None:
    schedule = Schedule(rows_with([9, 1, 1]), room(3, 6, candidates_per_prompt=4))
    assert schedule.admit().joining == [(0, 4), (1, 1), (2, 1)]


def test_slots_number_the_candidates_of_each_prompt() -> None:
    schedule = Schedule(rows_with([1, 3]), room(2, 9))
    schedule.admit()
    schedule.prompt_M = np.array([0, 1, 0, 0])
    slot_M, num_slots = schedule.slots(4)
    assert (slot_M.tolist(), num_slots) == ([0, 0, 1, 2], 3)
