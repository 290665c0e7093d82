"""What `make setup` says at its end, with an environment whose programs do nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the script, locks of one package, and environments whose uv notes what it is told."""
    (tmp_path / "infra" / "vllm").mkdir(parents=True)
    (tmp_path / "requirements").mkdir()
    shutil.copy(ROOT / "infra" / "set_up.sh", tmp_path / "infra")
    for lock in ("requirements/troupe", "infra/vllm/requirements-cpu", "infra/vllm/requirements-gpu"):
        (tmp_path / f"{lock}.txt").write_text("a==1\n")
    for environment in (".venv", ".venv-vllm"):
        (tmp_path / environment / "bin").mkdir(parents=True)
        program(tmp_path / environment / "bin" / "python", "")
        program(tmp_path / environment / "bin" / "uv", f"env > {tmp_path}/told")
    return tmp_path


def program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\nexit 0\n")
    path.chmod(0o755)


def set_up(checkout: Path, wanted: str, **variables: str) -> tuple[str, dict[str, str]]:
    """The last line of the script, and uv's variables."""
    env = {"PATH": "/usr/bin:/bin", "PYTHON": sys.executable, **variables}
    command = ["sh", str(checkout / "infra" / "set_up.sh"), wanted]
    finished = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    pairs = (line.partition("=")[::2] for line in (checkout / "told").read_text().splitlines())
    told = {name: value for name, value in pairs if name.startswith(("UV_", "SSL_"))}
    return finished.stdout.splitlines()[-1], told


SYSTEM = {"UV_SYSTEM_CERTS": "1"} if Path("/etc/ssl/certs/ca-certificates.crt").is_file() else {}
"""What uv is told where the system has certificates."""


def test_setup_ends_with_how_to_call_the_command(checkout: Path) -> None:
    last, told = set_up(checkout, "troupe")
    assert all(f"`{way}`" in last for way in ("source .venv/bin/activate", ".venv/bin/troupe"))
    assert told == SYSTEM
    assert set_up(checkout, "troupe", UV_SYSTEM_CERTS="0")[1] == {"UV_SYSTEM_CERTS": "0"}
    assert set_up(checkout, "vllm")[0] == "[4/4] PyTorch"


def test_what_pip_is_told_of_is_told_to_uv(checkout: Path) -> None:
    settings = {"PIP_FIND_LINKS": "/a  /b", "PIP_INDEX_URL": "https://index.example/simple", "PIP_CERT": "/etc/own.pem"}
    wanted = {
        "UV_FIND_LINKS": "/a,/b",
        "UV_DEFAULT_INDEX": "https://index.example/simple",
        "SSL_CERT_FILE": "/etc/own.pem",
        **SYSTEM,
    }
    assert set_up(checkout, "troupe", **settings)[1] == wanted
    answers = "case $5 in global.find-links) printf '\\n/a\\n/b\\n';; global.cert) echo /etc/own.pem;; esac"
    program(checkout / ".venv" / "bin" / "python", answers)
    del wanted["UV_DEFAULT_INDEX"]
    assert set_up(checkout, "troupe")[1] == wanted
    assert set_up(checkout, "troupe", **settings, SSL_CERT_FILE="/mine")[1]["SSL_CERT_FILE"] == "/mine"
