"""A benchmark that is ended takes its services along."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.training import services_to_go_on
from infra.services.lifecycle import mark_of
from infra.services.process import find_marked
from infra.services.stack import ALL, down

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = """
import sys, time
from pathlib import Path
from benchmarks.training import services
with services(Path(sys.argv[1])):
    print("serving", flush=True)
    time.sleep(600)
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_benchmark_that_is_ended_leaves_no_service(tmp_path: Path) -> None:
    benchmark = subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, str(tmp_path)], cwd=ROOT, text=True, stdout=subprocess.PIPE
    )
    assert benchmark.stdout is not None
    try:
        assert benchmark.stdout.readline() == "serving\n"
        assert [process for name in ALL for process in find_marked(mark_of(tmp_path, name))]
        benchmark.send_signal(signal.SIGTERM)
        assert benchmark.wait(120) == 128 + signal.SIGTERM
        assert [process for name in ALL for process in find_marked(mark_of(tmp_path, name))] == []
    finally:
        benchmark.kill()
        benchmark.wait()
        benchmark.stdout.close()
        down(tmp_path)


def test_a_home_that_is_a_file_is_refused_before_anything_starts(tmp_path: Path) -> None:
    file = tmp_path / "home"
    file.write_text("")
    with pytest.raises(SystemExit, match=r"--home .*home: a file; name a folder"), services_to_go_on(file):
        raise AssertionError("services were started")
