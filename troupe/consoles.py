"""Rich consoles of the commands."""

from typing import Any

from rich.console import Console

UNWRAPPED_COLUMNS = 10_000


def console(**settings: Any) -> Console:
    """A console with these `settings` of rich's, which wraps nothing unless it is a terminal: lines of a log are found by what
    is in them."""
    made = Console(**settings)
    if not made.is_terminal and not made.is_jupyter:
        made.width = UNWRAPPED_COLUMNS
    return made
