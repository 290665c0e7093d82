"""Suggestions for an unknown name."""

import difflib
from collections.abc import Iterable


def meant(name: str, known: Iterable[str], *, cutoff: float = 0.4) -> str:
    """`did you mean 'x'? ` with the nearest of the known names, to stand before a list of them; "" where none is near."""
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return f"did you mean {nearest[0]!r}? " if nearest else ""


def remedy_for(name: str, known: Iterable[str], *, otherwise: str | None = None, cutoff: float = 0.4) -> str:
    """The nearest of the known names as a question; where none is near, `otherwise`, or all of them.

    **Example** `remedy_for("sise", ["size", "seed"])` is "did you mean 'size'?".
    """
    names = sorted(known)
    everything = f"valid names: {', '.join(names)}" if otherwise is None else otherwise
    return meant(name, names, cutoff=cutoff).rstrip() or everything
