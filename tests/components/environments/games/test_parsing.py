"""The answer grammars: what they accept, what they refuse, and that nothing is ever evaluated."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.environments.games.parsing import GRID_MOVES
from components.environments.games.sudoku import placement_list
from components.errors import MalformedAction
from tests.costs import assert_cheap

HOSTILE = (
    *("__import__('os').system('true')", "['U']*3", "[c for c in 'UD']", "U" * 11, "u", "U;D", "U,,D", ",U", "U,"),
    *("[U", "U]", "[[U]]", "[U][D]", "U\nD", "U\x00", "ＵＤ", "U-", "{U}", "None"),
)


@pytest.mark.parametrize(
    ("text", "moves"),
    [
        ("", ""),
        ("[]", ""),
        ("[ ]", ""),
        ("UURD", "UURD"),
        ("U U R D", "UURD"),
        ("U,U,R,D", "UURD"),
        ("U, U , RD", "UURD"),
        ("[U, U R]", "UUR"),
        (" [UU]\n", "UU"),
        ("UDUDUDUDUD", "UDUDUDUDUD"),
    ],
)
def test_moves_are_read_in_every_spelling_of_the_grammar(text: str, moves: str) -> None:
    assert GRID_MOVES.parse(text, max_moves=10) == tuple(moves)


@pytest.mark.parametrize("text", HOSTILE)
def test_anything_else_is_a_malformed_action(text: str) -> None:
    with pytest.raises(MalformedAction):
        GRID_MOVES.parse(text, max_moves=10)
    with pytest.raises(MalformedAction):
        placement_list(4).parse(text, max_moves=3)


@pytest.mark.parametrize(
    ("text", "placements"),
    [
        ("", ()),
        ("[]", ()),
        ("123", ("123",)),
        ("123 214", ("123", "214")),
        ("123,214", ("123", "214")),
        ("[123,  214]\n", ("123", "214")),
    ],
)
def test_placements_are_read_in_every_spelling_of_the_grammar(text: str, placements: tuple[str, ...]) -> None:
    assert placement_list(4).parse(text, max_moves=2) == placements


@pytest.mark.parametrize("text", ["12", "1234", "123214", "105", "015", "150", "12A", "1 2 3", "111 111 111"])
def test_placements_outside_the_grid_or_over_the_limit_are_malformed(text: str) -> None:
    with pytest.raises(MalformedAction):
        placement_list(4).parse(text, max_moves=2)


def test_a_sixteen_grid_counts_on_with_letters() -> None:
    assert placement_list(16).parse("GA1", max_moves=1) == ("GA1",)
    with pytest.raises(MalformedAction):
        placement_list(9).parse("A11", max_moves=1)


@given(st.lists(st.sampled_from("UDLR"), max_size=10), st.sampled_from(["", " ", ",", ", ", "  ,  "]), st.booleans())
def test_spelling_moves_and_parsing_them_gives_them_back(moves: list[str], separator: str, bracketed: bool) -> None:
    text = separator.join(moves)
    assert GRID_MOVES.parse(f"[{text}]" if bracketed else text, max_moves=10) == tuple(moves)


@given(st.text(alphabet="UDLR[], \n") | st.text())
def test_what_is_accepted_holds_nothing_but_moves_separators_and_brackets(text: str) -> None:
    try:
        moves = GRID_MOVES.parse(text, max_moves=10)
    except MalformedAction:
        return
    assert len(moves) <= 10
    assert moves == tuple(c for c in text if c in "UDLR")
    assert not text.strip("UDLR[], \n\r\t")


@pytest.mark.parametrize("text", ["U " * 100_000 + "x", "U" + " " * 100_000 + "x", "[" * 100_000, "U, " * 100_000])
def test_long_hostile_text_is_refused_quickly_and_not_repeated_in_full(text: str) -> None:
    def refuse() -> None:
        with pytest.raises(MalformedAction) as refused:
            GRID_MOVES.parse(text, max_moves=10)
        assert len(str(refused.value)) < 300

    assert_cheap([("refuse", refuse)], most_cpu_seconds=2.0)
