import json
import sys
from pathlib import Path

import pytest

from flows import doctor
from flows.doctor import checks


def test_it_looks_at_everything_and_says_what_to_do(tmp_path: Path) -> None:
    found = {check.name: check for check in checks(tmp_path)}
    expected = "python,torch,transformers,deepspeed,gpu,generation engine,seaweedfs,disk,prefect,mlflow,s3,store"
    assert set(expected.split(",")) <= found.keys()
    assert all(found[name].ok for name in ("python", "torch", "transformers", "deepspeed", "seaweedfs"))
    assert found["deepspeed"].detail.startswith("0.")
    for name in ("prefect", "mlflow", "s3", "store"):
        assert (found[name].ok, found[name].remedy) == (False, "run `troupe up`")
    assert all(check.ok or check.remedy for check in found.values())
    documents = json.loads(json.dumps([check.document() for check in found.values()]))
    assert set(documents[0]) == {"name", "ok", "detail", "remedy"}


def test_a_library_that_kills_its_process_is_a_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fatal = """
import os
print('{"torch": {"version": "1", "gpus": ["A100"], "num_threads": 2}}', flush=True)
os.abort()
"""
    monkeypatch.setattr(doctor, "IMPORT_PROBE", fatal)
    found = {check.name: check for check in checks(tmp_path)}
    assert found["torch"].ok
    assert found["gpu"].detail == "1: A100"
    assert not found["deepspeed"].ok
    assert "exit code -6" in found["deepspeed"].detail


def test_a_library_that_hangs_is_a_failed_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "IMPORT_PROBE", "import time; time.sleep(60)")
    monkeypatch.setattr(doctor, "PROBE_TIMEOUT_SECONDS", 0.3)
    found = {check.name: check for check in checks(tmp_path)}
    assert (found["torch"].ok, found["torch"].detail) == (False, "no answer in 0 s")


def test_compiled_files_that_are_not_written_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "IMPORT_PROBE", "")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    found = {check.name: check for check in checks(tmp_path)}
    assert found["compiled Python files"].remedy == "unset PYTHONDONTWRITEBYTECODE"
    assert not found["compiled Python files"].ok
