import json
import shutil
import sys
from pathlib import Path

import pytest

from troupe.diagnostics import doctor
from troupe.diagnostics.check import OPTIONAL
from troupe.diagnostics.doctor import checks
from troupe.diagnostics.sandbox_checks import sandbox_checks


def test_it_looks_at_everything_and_says_what_to_do(tmp_path: Path) -> None:
    found = {check.name: check for check in checks(tmp_path)}
    expected = "python,torch,transformers,deepspeed,gpu,generation engine,seaweedfs,disk,prefect,mlflow,s3,store"
    expected += ",sandbox,docker daemon,bubblewrap"
    assert set(expected.split(",")) <= found.keys()
    assert all(found[name].ok for name in ("python", "torch", "transformers", "deepspeed", "seaweedfs"))
    assert found["deepspeed"].detail.startswith("0.")
    for name in ("prefect", "worker", "mlflow", "s3", "store"):
        assert (found[name].ok, found[name].remedy) == (False, "start it with `troupe up`")
    assert all(check.ok or check.remedy for check in found.values())
    documents = json.loads(json.dumps([check.document() for check in found.values()]))
    assert set(documents[0]) == {"name", "ok", "detail", "remedy"}


@pytest.fixture
def without_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves the sandbox alone, whose file system would be built for each test."""
    monkeypatch.setattr(doctor, "sandbox_checks", lambda home: [])


def test_a_library_that_kills_its_process_is_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_sandbox: None
) -> None:
    fatal = """
import os
print('{"torch": {"version": "1", "gpus": [["A100", [8, 0]]], "num_threads": 2}}', flush=True)
os.abort()
"""
    monkeypatch.setattr(doctor, "IMPORT_PROBE", fatal)
    found = {check.name: check for check in checks(tmp_path)}
    assert found["torch"].ok
    assert found["gpu"].detail == "1: A100"
    assert not found["deepspeed"].ok
    assert "exit code -6" in found["deepspeed"].detail


@pytest.mark.parametrize(
    ("driver", "capability", "compiler", "failing"),
    [
        ("580.159", (9, 0), "/usr/bin/cc", set()),
        ("570.1", (8, 0), "/usr/bin/cc", {"gpu driver"}),
        (None, (8, 0), "/usr/bin/cc", {"gpu driver"}),
        ("581", (7, 5), None, {"gpu bfloat16", "gpu compiler"}),
    ],
)
def test_what_a_gpu_needs_beside_torch(
    driver: str | None, capability: tuple[int, int], compiler: str | None, failing: set[str]
) -> None:
    found = doctor.gpu_checks([("Card", capability)], driver=driver, headers=Path("/include"), compiler=compiler)
    assert {check.name for check in found if not check.ok} == failing
    assert doctor.gpu_checks([], driver=None, headers=None, compiler=None) == []


def test_a_library_that_hangs_is_a_failed_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_sandbox: None
) -> None:
    monkeypatch.setattr(doctor, "IMPORT_PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_SECONDS", 0.3)
    found = {check.name: check for check in checks(tmp_path)}
    assert (found["torch"].ok, found["torch"].detail) == (False, "no answer in 0 s")
    assert found["torch"].remedy.startswith("run `troupe doctor` again"), "nothing is broken that could be reinstalled"


def test_compiled_files_that_are_not_written_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_sandbox: None
) -> None:
    monkeypatch.setattr(doctor, "IMPORT_PROBE", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = {check.name: check for check in checks(tmp_path)}
    assert found["compiled Python files"].remedy == "unset PYTHONDONTWRITEBYTECODE"
    assert not found["compiled Python files"].ok


def test_where_no_backend_works_the_commands_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    found = {check.name: check for check in sandbox_checks(tmp_path)}
    assert not any(check.ok for check in found.values())
    for command in ("apt-get install -y docker.io", "apt-get install -y bubblewrap"):
        assert command in found["sandbox"].remedy
    assert not any(check.remedy.startswith(OPTIONAL) for check in found.values())


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs `apt-get install -y bubblewrap`")
def test_what_auto_takes_its_image_and_its_limits_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    found = {check.name: check for check in sandbox_checks(tmp_path)}
    assert found["sandbox"].ok
    assert found["sandbox"].detail.startswith("auto takes bubblewrap; image ")
    assert "box memory 320 MiB; box processes 64" in found["sandbox"].detail
    assert not found["docker daemon"].ok
    assert found["docker daemon"].remedy.startswith(OPTIONAL)
    assert not (tmp_path / "sandbox" / "engine").exists(), "the doctor starts no engine"
