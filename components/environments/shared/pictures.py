"""Puzzles rendered for people: one line per row, with ANSI colours or in plain ASCII."""

from collections.abc import Mapping, Sequence


def paint(rows: Sequence[str], styles: Mapping[str, str], *, color: bool) -> str:
    """The rows with a space between characters; with `color`, each character in its style.

    **Example** `paint(["A#", ".."], {"#": "90"}, color=False)` is `"A #\\n. ."`.
    """
    return "\n".join(
        " ".join(apply_style(mark, styles[mark]) if color and mark in styles else mark for mark in row) for row in rows
    )


def apply_style(text: str, style: str) -> str:
    """`text` between the ANSI sequences that set a style (SGR parameters, `1;36` is bold cyan) and reset it."""
    return f"\x1b[{style}m{text}\x1b[0m"
