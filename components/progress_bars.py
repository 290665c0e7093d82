"""Progress bars of libraries: for people at a terminal, never in a log."""

from functools import cache, partialmethod


@cache
def show_bars_in_terminals_only() -> None:
    """From here on no library of this process draws a bar by tqdm where standard error is no terminal.

    A bar that a library itself shows or hides by an argument stays as the library says.
    """
    from tqdm.std import tqdm

    tqdm.__init__ = partialmethod(tqdm.__init__, disable=None)  # None: hidden unless it goes to a terminal
