"""Tables in Markdown."""

from collections.abc import Sequence


def markdown(titles: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table whose first column is text and whose others are numbers; rows may be shorter than the titles."""
    aligned = "|" + "|".join("---" if not n else "---:" for n in range(len(titles))) + "|"
    lines = [[*row, *[""] * (len(titles) - len(row))] for row in [titles, *body]]
    spelled = [f"| {' | '.join(line)} |" for line in lines]
    return "\n".join([spelled[0], aligned, *spelled[1:]])
