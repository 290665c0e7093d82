"""Corpora: reading local files, and both ways to spell a passage."""

import json
from pathlib import Path

import pytest

from components.environments.search.corpus import corpus_digest, passage_of, read_corpus
from components.errors import ConfigurationError


def write_lines(folder: Path, *lines: str) -> str:
    path = folder / "corpus.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    ("document", "passage"),
    [
        ({"title": "Ann", "text": "lives here"}, ("Ann", "lives here")),
        ({"id": "3", "contents": '"Ann"\nlives\nhere'}, ("Ann", "lives\nhere")),
        ({"contents": "Ann\nlives here"}, ("Ann", "lives here")),
        ({"title": "Ann", "contents": "lives here"}, ("Ann", "lives here")),
        ({"contents": "one line"}, ("", "one line")),
        ({"text": "no title"}, ("", "no title")),
        ({"title": "no text"}, None),
        ({"contents": 3}, None),
        ("text", None),
        (None, None),
    ],
)
def test_how_a_document_spells_a_passage(document: object, passage: tuple[str, str] | None) -> None:
    assert passage_of(document) == passage


def test_a_file_is_read_line_by_line_and_each_passage_is_kept_once(tmp_path: Path) -> None:
    ann = json.dumps({"title": "Ann", "text": "lives here", "id": 1})
    bob = json.dumps({"contents": '"Bob"\nlives there'})
    corpus = read_corpus(write_lines(tmp_path, ann, "", bob, ann))
    assert corpus == (("Ann", "lives here"), ("Bob", "lives there"))
    assert corpus_digest(corpus) != corpus_digest(corpus[::-1])


def test_title_and_text_are_kept_apart_in_the_digest() -> None:
    assert corpus_digest([("ab", "c")]) != corpus_digest([("a", "bc")])


@pytest.mark.parametrize(
    ("line", "reason"),
    [("{", "line 2: no JSON"), ('{"title": "x"}', "line 2: not a passage"), ("[1]", "line 2: not a passage")],
)
def test_a_line_that_is_no_passage_is_named(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        read_corpus(write_lines(tmp_path, '{"text": "fine"}', line))


def test_a_missing_binary_or_empty_file_is_named(tmp_path: Path) -> None:
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, reason in (
        (str(tmp_path / "none"), "No such file or directory; correct the path"),
        (str(binary), "not UTF-8 text"),
        (write_lines(tmp_path), "no passage"),
    ):
        with pytest.raises(ConfigurationError, match=reason):
            read_corpus(path)
