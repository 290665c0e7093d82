"""Modules of the user's own, as the components find them."""

import itertools
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

_numbers = itertools.count()


@pytest.fixture
def own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Writes a module into the current folder, and returns its name, which nobody has used."""
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)

    def write(text: str) -> str:
        name = f"own_module_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(text)
        return name

    yield write
    sys.path[:] = before
