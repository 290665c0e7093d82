"""What a training worker imports: each start pays for it."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CODE = """
import sys
import components.training.worker_main
from transformers import Qwen3ForCausalLM
print([name for name in ("mlflow", "accelerate", "scipy") if sys.modules.get(name)])
import peft
print(sys.modules["accelerate"].__name__)
"""


@pytest.mark.slow
def test_a_worker_imports_nothing_that_it_does_not_use_and_peft_still_works() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if not line.startswith("[20")] == ["[]", "accelerate"]
