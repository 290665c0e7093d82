"""Where TROUPE_TEST_BACKENDS names backends, tests that need one are not quietly skipped: this one fails."""

import os
from pathlib import Path

import pytest

from components.sandbox.backends import probe

REQUIRED = [name for name in os.environ.get("TROUPE_TEST_BACKENDS", "").split(",") if name]


@pytest.mark.skipif(not REQUIRED, reason="TROUPE_TEST_BACKENDS names no backend that must work here")
def test_required_backends_work_here(state_folder: Path) -> None:
    for name in REQUIRED:
        found = probe(name, state_folder=state_folder)  # type: ignore[arg-type]
        assert found.works, f"{name}: {found.detail}: {found.remedy}"
