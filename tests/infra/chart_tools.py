"""What `make charts` installs, for tests: Helm, the schemas of Kubernetes, and linters."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ROOT / ".venv-charts" / "bin"
REQUIRED = bool(os.environ.get("TROUPE_TEST_CHARTS"))
"""Where it is set, a test fails rather than be skipped for want of these tools."""
needs_charts = pytest.mark.skipif(
    not (TOOLS / "hadolint").exists() and not REQUIRED, reason="not installed: make charts"
)

Document = dict[str, Any]


def run_tool(*command: str, given: str | None = None) -> subprocess.CompletedProcess[str]:
    """A tool's outcome, from the root of the repository."""
    return subprocess.run(
        [str(TOOLS / command[0]), *command[1:]], input=given, cwd=ROOT, capture_output=True, text=True
    )


def render(*files: Path) -> list[list[Document]]:
    """The chart's documents for each file of values."""
    return _json("render", *map(str, files))


def find_problems(documents: Sequence[Sequence[Document]]) -> list[list[str]]:
    """For each list of documents, one line for each thing that a server would refuse."""
    return _json("problems", given=json.dumps(documents))


def _json(*arguments: str, given: str | None = None) -> Any:
    done = run_tool("python", str(Path(__file__).with_name("chart_tool.py")), *arguments, given=given)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)
