"""What `make setup` says at its end, with an environment whose programs do nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("wanted", ["troupe", "vllm"])
def test_setup_ends_with_how_to_call_the_command(tmp_path: Path, wanted: str) -> None:
    environment = tmp_path / {"troupe": ".venv", "vllm": ".venv-vllm"}[wanted]
    (environment / "bin").mkdir(parents=True)
    for name in ("python", "uv"):
        (environment / "bin" / name).write_text("#!/bin/sh\nexit 0\n")
        (environment / "bin" / name).chmod(0o755)
    (tmp_path / "infra" / "vllm").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "infra" / "set_up.sh", tmp_path / "infra")
    for lock in ("requirements/troupe", "infra/vllm/requirements-cpu", "infra/vllm/requirements-gpu"):
        (tmp_path / f"{lock}.txt").write_text("a==1\n")
    command = ["sh", str(tmp_path / "infra" / "set_up.sh"), wanted]
    finished = subprocess.run(
        command, env={"PATH": "/usr/bin:/bin", "PYTHON": sys.executable}, capture_output=True, text=True, check=True
    )
    last = finished.stdout.splitlines()[-1]
    if wanted == "troupe":
        assert all(f"`{way}`" in last for way in ("source .venv/bin/activate", ".venv/bin/troupe"))
    else:
        assert last == "[4/4] PyTorch"
