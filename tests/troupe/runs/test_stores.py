"""The store that a command opens."""

from pathlib import Path

import pytest

from components.artifacts.format import FORMAT
from components.errors import StoreRefused
from troupe.runs.stores import opened_store


def test_a_store_of_a_newer_format_is_not_even_read(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text(f'{{"format": {FORMAT + 1}}}')
    with pytest.raises(StoreRefused, match="use the Troupe that wrote it"):
        opened_store(tmp_path.as_uri())
