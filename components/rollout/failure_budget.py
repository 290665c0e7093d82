"""The failure budget: failed episodes are data up to a fraction, and an error above it."""

from collections.abc import Sequence

from components.errors import NothingScorable, TooManyFailedEpisodes
from components.schema import Episode

_NUM_SHOWN = 3


def check_failures(
    episodes: Sequence[Episode],
    *,
    num_planned: int,
    max_failed_fraction: float,
    max_unscorable_fraction: float | None = None,
) -> None:
    """Raise TooManyFailedEpisodes if more of `episodes` failed than `max_failed_fraction` of `num_planned`.

    Those that ended because the sandbox failed count apart, against `max_unscorable_fraction`; None: with the others.

    **Example** 64 planned and a fraction of .05: the fourth failure raises, at once.
    """
    failed = [episode for episode in episodes if episode.error is not None]
    if max_unscorable_fraction is not None:
        unscorable = [episode for episode in failed if is_unscorable(episode)]
        failed = [episode for episode in failed if not is_unscorable(episode)]
        _check(unscorable, num_planned, max_unscorable_fraction, "rewards.max_failed_fraction")
    _check(failed, num_planned, max_failed_fraction, "rollout.max_failed_fraction")


def is_unscorable(episode: Episode) -> bool:
    """Whether an episode ended at a node of which the sandbox could score no candidate."""
    return episode.error is not None and f": {NothingScorable.__name__}: " in episode.error


def _check(failed: Sequence[Episode], num_planned: int, allowed: float, field: str) -> None:
    if len(failed) <= allowed * num_planned:
        return
    shown = "; ".join(f"{e.problem.problem_id} episode {e.episode}: {e.error}" for e in failed[:_NUM_SHOWN])
    raise TooManyFailedEpisodes(
        f"{len(failed)} of {num_planned} episodes failed; the fraction that {field} allows is {allowed}. First: {shown}"
    )
