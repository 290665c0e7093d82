"""The order of the suite: whole runs first, so that with several workers none of them is left alone with the longest file."""

from pathlib import Path

import pytest

WHOLE_RUNS = Path(__file__).resolve().parent / "integration"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort whole runs to the front; the order inside is kept."""
    items.sort(key=lambda item: WHOLE_RUNS not in item.path.parents)
