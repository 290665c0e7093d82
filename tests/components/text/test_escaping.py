import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.text.escaping import markdown_cell, printable, printable_document, show_value, without_passwords


@given(st.text())
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    assert printable(text, keep="").isprintable() or not text


@given(st.text(st.sampled_from("abcÄß漢字🙂 –…'\"\\<>&1\n\t")))
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "\x08\x08", "\ud800"])
def test_what_terminals_obey_is_spelled_out(hostile: str) -> None:
    shown = printable(hostile)
    assert shown.isprintable()
    assert shown.startswith("\\")


def test_documents_are_printable_in_keys_and_values() -> None:
    document = {"run\x1b": ["a\nb", {"x": 1, "y": None, "z": 0.5}]}
    assert printable_document(document) == {"run\\x1b": ["a\\x0ab", {"x": 1, "y": None, "z": 0.5}]}
    assert json.loads(json.dumps(printable_document(document)))


def test_passwords_in_addresses_are_not_shown() -> None:
    text = "http://me:se/cret@host:1/x and s3://key:secret@bucket, https://token@host"
    assert "secret" not in without_passwords("http://me:secret@host")
    assert without_passwords(text).endswith("s3://…@bucket, https://…@host")
    assert without_passwords("mail me@host, see http://host/@path") == "mail me@host, see http://host/@path"
    assert "secret" not in show_value({"url": "http://me:secret@host"})
    assert len(show_value("x" * 10_000)) < 130
    assert show_value([10**5000]) == "list with an integer of thousands of digits"


def test_a_cell_of_a_page_is_letters_and_nothing_else() -> None:
    assert markdown_cell("<script>|[a](b)`") == "\\<script\\>\\|\\[a\\]\\(b\\)\\`"
    assert "\n" not in markdown_cell("a\nb")
