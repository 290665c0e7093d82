"""The names that users build on."""

import subprocess
import sys
from pathlib import Path

import troupe

ROOT = Path(__file__).resolve().parent.parent


def test_the_public_names_are_these_and_each_is_documented() -> None:
    assert set(troupe.__all__) == {"Environment", "MalformedAnswer", "Options", "Step"}
    for name in troupe.__all__:
        assert getattr(troupe, name).__doc__, name


def test_importing_them_loads_no_heavy_library() -> None:
    code = "import sys, troupe\nprint([name for name in ('torch', 'prefect', 'mlflow', 'transformers') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
