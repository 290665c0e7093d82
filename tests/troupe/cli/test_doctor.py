"""`troupe doctor --preset P --inventory I`: a plan without torch, or the line that refuses it."""

import json
import subprocess
import sys

import pytest

from tests.test_architecture import ROOT

COMMAND = """
import sys
from troupe.cli import main
sys.argv = ["troupe", "doctor", *sys.argv[1:]]
try:
    main()
finally:
    assert "torch" not in sys.modules, "a plan needs no torch"
"""


def ask(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", COMMAND, *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("inventory", "gpus"),
    [("1x24", [["0"], ["0"]]), ("1x80", [["0"], ["0"]]), ("8x80", [["0"], ["1"]]), ("2x8x80", [["0"], ["1"]])],
)
def test_a_plan_of_machines_that_are_not_here(inventory: str, gpus: list[list[str]]) -> None:
    answer = ask("--preset", "math-qwen", "--inventory", inventory, "--json")
    assert answer.returncode == 0, answer.stderr
    document = json.loads(answer.stdout)
    assert [row["gpus"] for row in document["workers"]] == gpus
    assert [row["parts"].get("engine", 0) > 0 for row in document["workers"]] == [True, False]
    assert document["uncounted"] == []


def test_what_does_not_fit_is_one_line() -> None:
    answer = ask("--preset", "math-qwen", "--inventory", "1x8")
    assert answer.returncode == 2
    assert answer.stderr.startswith("troupe: memory of device cuda: the run needs about")
    assert len(answer.stderr.strip().splitlines()) == 1


def test_the_table_names_every_worker_and_the_order_of_starts() -> None:
    answer = ask(
        "--preset",
        "math-qwen",
        "--inventory",
        "2x80",
        "--set",
        "resources.placement={replicas: 3, memory_fraction: 0.4}",
    )
    assert answer.returncode == 0, answer.stderr
    assert all(name in answer.stdout for name in ("engine 2 of team", "rank 0 of team", "weights 2.9"))
    assert "engine 0 of team and engine 1 of team, then engine 2 of team" in answer.stdout


def test_an_inventory_without_a_run_is_refused() -> None:
    answer = ask("--inventory", "8x80")
    assert answer.returncode == 2
    assert "name it with --preset" in answer.stderr
