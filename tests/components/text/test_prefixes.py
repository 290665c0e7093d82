from itertools import takewhile

from hypothesis import given
from hypothesis import strategies as st

from components.text.prefixes import common_length, read_tokens, token_order

_tokens = st.lists(st.sampled_from([0, 1, 255, 256, 300, 2**16, 2**32 - 1]), max_size=6)


@given(st.lists(_tokens, max_size=6))
def test_keys_sort_as_tokens_do_and_hold_them(sequences: list[list[int]]) -> None:
    keys = sorted(map(token_order, sequences))
    assert [read_tokens(key).tolist() for key in keys] == sorted(sequences)


@given(_tokens, _tokens, _tokens)
def test_the_common_length_is_in_whole_tokens(shared: list[int], first: list[int], second: list[int]) -> None:
    one, other = shared + first, shared + second
    assert common_length(token_order(one), token_order(other)) == sum(
        1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    )
