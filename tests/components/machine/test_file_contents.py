"""What files held, and which have changed since."""

import os
from pathlib import Path

from components.machine.file_contents import read_contents


def test_names_and_contents_count_and_places_do_not(tmp_path: Path) -> None:
    for folder, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows").write_text(text)
    digests = {each: read_contents({"rows": tmp_path / each / "rows"}).digest for each in "abc"}
    assert digests["a"] == digests["b"] != digests["c"]
    assert read_contents({"other": tmp_path / "a" / "rows"}).digest != digests["a"]


def test_a_file_with_another_content_has_changed_and_one_that_was_touched_has_not(tmp_path: Path) -> None:
    rows, more = tmp_path / "rows", tmp_path / "more"
    rows.write_text("one")
    more.write_text("more")
    contents = read_contents({"rows": rows, "more": more})
    assert contents.find_changed() is None
    os.utime(rows, ns=(1, 1))
    assert contents.find_changed() is None
    rows.write_text("two")
    assert contents.find_changed() == rows
    rows.write_text("one")
    more.unlink()
    assert contents.find_changed() == more
