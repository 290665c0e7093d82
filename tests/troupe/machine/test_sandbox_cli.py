"""`troupe sandbox` as a person or a program meets it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.sandbox.attacks.runner import AttackReport
from components.sandbox.base import SandboxDescription
from components.sandbox.daemon import stop_daemon
from components.text.escaping import printable
from tests.waits import lines_without_waits
from troupe.diagnostics.sandbox import attack_document

ROOT = Path(__file__).resolve().parents[3]
needs_bubblewrap = pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs `apt-get install -y bubblewrap`")
needs_docker = pytest.mark.skipif(
    shutil.which("dockerd") is None or os.geteuid() != 0, reason="needs root and `apt-get install -y docker.io`"
)
RESULT_KEYS = {"status", "stdout", "stderr", "exit_code", "wall_seconds", "cpu_seconds"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A home of Troupe where the file system of the boxes is built once; its daemon is stopped in the end."""
    folder = tmp_path_factory.mktemp("home")
    yield folder
    stop_daemon(folder / "sandbox")


def sandbox(*arguments: str, home: Path, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TROUPE_", "DOCKER_"))}
    env |= {"TROUPE_HOME": str(home), "COLUMNS": "150", **variables}
    command = [sys.executable, "-c", "from troupe.cli import main; main()", "sandbox", *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=env, input=stdin, capture_output=True, text=True, timeout=120, check=False
    )


@needs_bubblewrap
def test_run_gives_the_programs_streams_and_its_exit(home: Path, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys\nprint(input() * 2)\nprint('aside', file=sys.stderr)\n")
    (tmp_path / "input").write_text("ab\n")
    arguments = ("run", str(tmp_path / "program.py"), "--stdin", str(tmp_path / "input"), "--backend", "bubblewrap")
    ended = sandbox(*arguments, home=home)
    assert (ended.returncode, ended.stdout) == (0, "abab\n"), ended.stderr
    assert "\n".join(lines_without_waits(ended.stderr)).startswith("aside\nok, exit code 0 (")
    document = json.loads(sandbox(*arguments, "--json", home=home).stdout)
    assert document.keys() == RESULT_KEYS
    assert (document["status"], document["stdout"], document["stderr"], document["exit_code"]) == (
        "ok", "abab\n", "aside\n", 0
    )  # fmt: skip


@needs_bubblewrap
@pytest.mark.parametrize(
    ("program", "options", "status"),
    [
        ("raise SystemExit(3)", (), "nonzero_exit"),
        ("import time; time.sleep(9)", ("--timeout", "0.3"), "wall_timeout"),
        ("print('x' * 10**7)", (), "output_limit"),
        ("x = b'x' * 2**30", (), "memory"),
    ],
)
def test_a_program_that_does_not_end_well_is_exit_code_one(
    program: str, options: tuple[str, ...], status: str, home: Path
) -> None:
    ended = sandbox("run", "-", "--backend", "bubblewrap", "--json", *options, home=home, stdin=program)
    assert ended.returncode == 1, ended.stderr
    assert json.loads(ended.stdout)["status"] == status


def test_without_any_backend_the_commands_that_help_are_told(home: Path) -> None:
    ended = sandbox("run", "-", home=home, stdin="print(1)", PATH="/nowhere", DOCKER_HOST="unix:///nowhere/docker.sock")
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "apt-get install -y bubblewrap" in ended.stderr
    assert "apt-get install -y docker.io" in ended.stderr


@needs_bubblewrap
def test_attack_prints_a_row_each_and_counts(home: Path) -> None:
    ended = sandbox("attack", "--backend", "bubblewrap", "--only", "results", home=home)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.startswith("bubblewrap, image ")
    for title in ("attack", "tried", "stopped by", "next job", "odd-result-files", "right"):
        assert title in ended.stdout
    assert ended.stdout.splitlines()[-1] == "7 attacks, 7 stopped, 0 succeeded"


@needs_bubblewrap
def test_attack_as_json_is_one_document_and_rows_go_to_standard_error(home: Path) -> None:
    ended = sandbox("attack", "--backend", "bubblewrap", "--only", "forge-a-result", "--json", home=home)
    document = json.loads(ended.stdout)
    assert (document["num_attacks"], document["num_stopped"], document["num_succeeded"]) == (1, 1, 0)
    assert document["backend"] == "bubblewrap"
    (found,) = document["attacks"]
    assert (found["name"], found["stopped"], found["next_job_ok"]) == ("forge-a-result", True, True)
    assert "forge-a-result" in ended.stderr


def test_an_attack_that_got_through_or_broke_the_next_job_counts_as_succeeded() -> None:
    description = SandboxDescription(backend="docker", image_digest="x", num_boxes=1, box_limits={})

    def report(*, stopped: bool, next_job_ok: bool) -> AttackReport:
        return AttackReport(
            name="a", theme="t", tries="", stopped=stopped, stopped_by="", next_job_ok=next_job_ok, next_job="", seconds=0.0
        )  # fmt: skip

    reports = [report(stopped=a, next_job_ok=b) for a in (True, False) for b in (True, False)]
    document = attack_document(description, reports)
    assert (document["num_attacks"], document["num_stopped"], document["num_succeeded"]) == (4, 1, 3)


@needs_docker
def test_build_and_status_tell_of_daemon_image_and_limits(home: Path) -> None:
    before = json.loads(sandbox("status", "--json", home=home).stdout)
    assert (before["auto"], before["engine"]) == ("docker", None)
    built: dict[str, Any] = json.loads(sandbox("build", "--json", home=home).stdout)
    assert built["engine"]["private"]
    assert 10 << 20 < built["num_bytes"] < 200 << 20
    after = json.loads(sandbox("status", "--json", home=home).stdout)
    assert after["engine"] == built["engine"]
    assert after["image_digest"] == built["digest"]
    assert after["limits"]["box memory"] == "320 MiB"
    assert (after["boxes"]["docker"], after["backends"]["docker"]["works"]) == (0, True)
    ended = sandbox("attack", "--backend", "docker", "--only", "vsock", home=home)
    assert ended.returncode == 0, ended.stdout
    assert ended.stdout.splitlines()[-1] == "1 attacks, 1 stopped, 0 succeeded"


def test_what_commands_a_terminal_is_spelled_out() -> None:
    assert printable("ok\n\tü") == "ok\n\tü"
    assert printable("\x1b[2J\x07\0\r") == "\\x1b[2J\\x07\\x00\\x0d"
