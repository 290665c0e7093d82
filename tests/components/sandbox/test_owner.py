"""An owner's text is read back, and anybody else's text is nobody's."""

import pytest

from components.sandbox.owner import Owner, this_owner


def test_an_owner_is_read_back_from_its_text() -> None:
    assert Owner.parse(str(this_owner())) == this_owner()


@pytest.mark.parametrize(
    "text",
    ["", "k", "k-1", "k-1-", "-1-2", "k--2", "k-+1-2", "k-\u00b2-1", "k-1-\u0663", "k-1_0-2", f"k-1-{'9' * 5000}"],
)
def test_other_text_names_nobody(text: str) -> None:
    assert Owner.parse(text) is None
