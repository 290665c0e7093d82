"""Cells, steps and coordinates."""

from components.environments.games.grid import coordinates_text, neighbours, rows_text, step_table


def test_a_step_is_blocked_by_walls_and_by_the_edge() -> None:
    assert step_table(".#..", 2) == ((0, 2, 0, 0), (1, 3, 0, 1), (0, 2, 2, 3), (3, 3, 2, 3))


def test_neighbours_are_mutual() -> None:
    beside = neighbours(4)
    assert all(cell in beside[there] for cell in range(16) for there in beside[cell] if there >= 0)


def test_coordinates_have_one_width_at_every_size() -> None:
    assert coordinates_text(5)[7] == "12"
    assert coordinates_text(10)[99] == "99"
    assert coordinates_text(12)[13] == "0101"
    assert len({*coordinates_text(12)}) == 144


def test_each_row_ends_with_a_line_feed() -> None:
    assert rows_text("..#.", 2) == "..\n#.\n"
