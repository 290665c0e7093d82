"""Sudoku grids for people, with lines between the boxes."""

from components.environments.games.parsing import SYMBOLS
from components.environments.games.sudoku_grids import BOX_SHAPES, Grid
from components.environments.shared.pictures import styled

_CLUE, _OWN = "1", "36"


def sudoku_picture(numbers: Grid, clues: Grid, size: int, *, color: bool) -> str:
    """The grid: blanks are dots, own numbers are coloured, or marked with ' in plain ASCII."""
    height, width = BOX_SHAPES[size]
    lines = []
    for row in range(size):
        cells = [
            _cell(numbers[cell], is_clue=clues[cell] != 0, color=color) for cell in range(row * size, (row + 1) * size)
        ]
        boxes = ["".join(cells[start : start + width]) for start in range(0, size, width)]
        if row and row % height == 0:
            lines.append("+".join("-" * (2 * width + 1) for _ in boxes)[1:])
        lines.append("| ".join(boxes).rstrip())
    return "\n".join(lines)


def _cell(number: int, *, is_clue: bool, color: bool) -> str:
    if number == 0:
        return ". "
    symbol = SYMBOLS[number - 1]
    if color:
        return styled(symbol, _CLUE if is_clue else _OWN) + " "
    return symbol + (" " if is_clue else "'")
