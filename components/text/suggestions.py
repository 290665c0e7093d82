"""Suggestions for an unknown name."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str], *, cutoff: float = 0.4) -> str:
    """`did you mean 'x'? ` with the nearest known name, to precede a list of them; "" if none is near."""
    nearest = difflib.get_close_matches(name, sorted(known), n=1, cutoff=cutoff)
    return f"did you mean {nearest[0]!r}? " if nearest else ""


def suggest(name: str, known: Iterable[str], *, otherwise: str | None = None, cutoff: float = 0.4) -> str:
    """A question with the nearest known name; if none is near, `otherwise`, or a list of all names.

    **Example** `suggest("sise", ["size", "seed"])` is "did you mean 'size'?".
    """
    names = sorted(known)
    return did_you_mean(name, names, cutoff=cutoff).rstrip() or otherwise or f"valid names: {', '.join(names)}"
