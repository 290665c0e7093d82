"""What to write instead of a name that nobody knows."""

import difflib
from collections.abc import Iterable


def remedy_for(name: str, known: Iterable[str]) -> str:
    """The nearest of the known names as a question, or all of them."""
    names = sorted(known)
    nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f"did you mean {nearest[0]!r}?" if nearest else f"valid names: {', '.join(names)}"
