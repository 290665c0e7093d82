"""Exact cover by Knuth's Algorithm X over dictionaries of sets (D. E. Knuth, "Dancing Links", 2000, arXiv:cs/0011047)."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from random import Random
from typing import TypeVar

Choice = TypeVar("Choice", bound=Hashable)


def exact_covers(
    choices: Mapping[Choice, Sequence[Hashable]], *, rng: Random | None = None
) -> Iterator[tuple[Choice, ...]]:
    """Every set of choices that meets each constraint exactly once, lazily; `rng` shuffles the order of the search.

    `choices` maps a choice to the constraints that it meets. The search branches on the constraint with the fewest choices.

    **Example** `{"a": [1, 2], "b": [3], "c": [2, 3]}` has one cover: a and b.
    """
    open_choices: dict[Hashable, set[Choice]] = {}
    for choice, constraints in choices.items():
        for constraint in constraints:
            open_choices.setdefault(constraint, set()).add(choice)
    order = {choice: number for number, choice in enumerate(choices)}
    return _extend([], choices, open_choices, order, rng)


def _extend(
    chosen: list[Choice],
    choices: Mapping[Choice, Sequence[Hashable]],
    open_choices: dict[Hashable, set[Choice]],
    order: Mapping[Choice, int],
    rng: Random | None,
) -> Iterator[tuple[Choice, ...]]:
    if not open_choices:
        yield tuple(chosen)
        return
    tightest = min(open_choices, key=lambda constraint: len(open_choices[constraint]))
    candidates = sorted(open_choices[tightest], key=order.__getitem__)
    if rng:
        rng.shuffle(candidates)
    for choice in candidates:
        removed = _choose(choice, choices, open_choices)
        yield from _extend([*chosen, choice], choices, open_choices, order, rng)
        _undone(choice, choices, open_choices, removed)


def _choose(
    choice: Choice, choices: Mapping[Choice, Sequence[Hashable]], open_choices: dict[Hashable, set[Choice]]
) -> list[set[Choice]]:
    """Remove the constraints that `choice` meets, and every choice that would meet one of them again."""
    removed = []
    for constraint in choices[choice]:
        for rival in open_choices[constraint]:
            for other in choices[rival]:
                if other != constraint:
                    open_choices[other].remove(rival)
        removed.append(open_choices.pop(constraint))
    return removed


def _undone(
    choice: Choice,
    choices: Mapping[Choice, Sequence[Hashable]],
    open_choices: dict[Hashable, set[Choice]],
    removed: list[set[Choice]],
) -> None:
    for constraint in reversed(choices[choice]):
        open_choices[constraint] = removed.pop()
        for rival in open_choices[constraint]:
            for other in choices[rival]:
                if other != constraint:
                    open_choices[other].add(rival)
