"""Processes of a benchmark that is interrupted, is killed or has failed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from benchmarks import arms
from benchmarks.arm_runs import Order, Trained, keep, load_row
from tests.processes import runs

ROOT = Path(__file__).resolve().parents[2]
BENCHMARK = """
import os, time
from benchmarks.ended_together import as_they_end, exit_when_told, processes_ended_together

def training(seconds):
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(seconds)

if __name__ == "__main__":
    exit_when_told()
    with processes_ended_together(2) as processes:
        for future in as_they_end([processes.submit(training, 300) for _ in range(3)]):
            future.result()
"""


@contextmanager
def start_benchmark(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """A benchmark with three trainings, two at once, in a group of its own as in a terminal; and the two that run."""
    script = folder / "benchmark.py"
    script.write_text(BENCHMARK)
    with subprocess.Popen(
        [sys.executable, str(script)], env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as benchmark:  # fmt: skip
        assert benchmark.stdout is not None
        trainings: list[psutil.Process] = []
        try:
            trainings += [psutil.Process(int(benchmark.stdout.readline())) for _ in range(2)]
            yield benchmark, trainings
        finally:
            for process in trainings:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            benchmark.kill()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_trainings_end_with_their_benchmark_however_it_is_ended(number: signal.Signals, tmp_path: Path) -> None:
    with start_benchmark(tmp_path) as (benchmark, trainings):
        benchmark.send_signal(number)
        output, errors = benchmark.communicate(timeout=60)  # a training takes 300 s
        assert output == ""  # the third one never began
        if number == signal.SIGKILL:
            assert benchmark.returncode == -number
        else:
            assert (benchmark.returncode, errors) == (128 + number, "")
        psutil.wait_procs(trainings, timeout=60)
        assert not any(runs(process) for process in trainings)


def test_a_training_that_fails_stops_no_other_and_every_finished_row_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(order: Order, home: Path) -> Trained:
        if order.seed == 1:
            raise ValueError("no gradient")
        row = Trained(
            game=order.game, run=order.run, seed=order.seed, before={}, after={}, num_steps=1, num_tokens=1, num_rows=1,
            num_rows_with_signal=1, num_updates=1, first_role_share=None, seconds=1.0,
        )  # fmt: skip
        keep(row, order, home)
        return row

    @contextmanager
    def threads(number: int) -> Iterator[Any]:
        with ThreadPoolExecutor(number) as pool:
            yield pool

    monkeypatch.setattr(arms, "train_arm", train)
    monkeypatch.setattr(arms, "processes_ended_together", threads)
    wanted = [Order(game="tiny", run="single", seed=seed, budget_tokens=1) for seed in range(4)]
    with pytest.raises(BaseExceptionGroup, match="1 of 4 runs failed"):
        arms.train_missing(wanted, tmp_path, jobs=1)
    assert [load_row(order, tmp_path) is not None for order in wanted] == [True, False, True, True]
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 3
    assert f"{wanted[1].run_id} failed: no gradient" in told.err
