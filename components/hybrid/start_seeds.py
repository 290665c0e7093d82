"""Which starts training plays and which are kept for evaluations: two kinds of seeds, of which none is of both."""

from components.identity import seed_for

_ONE_IN = 5
"""Of this many starts one is held out. All numbers of starts are multiples of it, so that it is kept by `seed % num_starts`."""
NUM_STARTS = {"homebrew": 65_535, "crystal": 60}
"""The starts of a cartridge that differ: states of our own one's generator of chance, and idle frames before Crystal."""


def is_held_out_seed(seed: int) -> bool:
    """Whether the start of a seed is one that no training plays."""
    return seed % _ONE_IN == 0


def start_seed(seed: int, *parts: str | int, is_held_out: bool) -> int:
    """A seed for these parts, as that of `seed_for`, of the kind that is asked for.

    **Example** of the 65,535 starts of our cartridge 13,107 are held out, of the 60 of Crystal 12.
    """
    drawn = seed_for(seed, *parts)
    while is_held_out_seed(drawn) != is_held_out:
        drawn = seed_for(drawn, "another start")
    return drawn
