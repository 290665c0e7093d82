"""The failure budget: failed episodes are data up to a fraction, and an error above it."""

from collections.abc import Sequence

from components.errors import TooManyFailedEpisodes
from components.schema import Episode

_NUM_SHOWN = 3


def check_failures(episodes: Sequence[Episode], *, num_planned: int, max_failed_fraction: float) -> None:
    """Raise TooManyFailedEpisodes if more of `episodes` failed than `max_failed_fraction` of `num_planned`.

    **Example** 64 planned and a fraction of .05: the fourth failure raises, at once.
    """
    failed = [episode for episode in episodes if episode.error is not None]
    if len(failed) <= max_failed_fraction * num_planned:
        return
    shown = "; ".join(f"{e.problem.problem_id} episode {e.episode}: {e.error}" for e in failed[:_NUM_SHOWN])
    raise TooManyFailedEpisodes(
        f"{len(failed)} of {num_planned} episodes failed; the allowed fraction is {max_failed_fraction}. First: {shown}"
    )
