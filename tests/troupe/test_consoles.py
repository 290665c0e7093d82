"""What is printed off a terminal and on a narrow one."""

import io
import re

import pytest

from components.reporting.progress import report, subscribe
from troupe.consoles import console
from troupe.diagnostics.tables import services_text
from troupe.runs.tables import evaluations_table
from troupe.training.display import TrainingDisplay

METRICS = {f"reward/{role}/mean": -0.1 for role in ("tool_agent", "plan_agent", "a_judge_of_a_long_name")}


def test_off_a_terminal_no_line_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    output = io.StringIO()
    log = console(file=output)
    with subscribe(TrainingDisplay(log).hear):
        report(
            "iteration",
            0,
            1,
            9,
            metrics={"rollout/success_rate": 0.0, **METRICS},
            timings={"time/rollout_seconds": 1.5},
        )
    log.print("word " * 100)
    first, *rest = output.getvalue().splitlines()
    assert first.endswith("reward a_judge_of_a_long_name -0.10  1.5 s  8 steps left")
    assert len(rest) == 1


def test_an_address_is_a_line_of_its_own_on_any_terminal() -> None:
    output = io.StringIO()
    address = "http://127.0.0.1:4200/" + "a" * 90
    document = {"prefect": {"ui_url": address}, "mlflow": None, "s3": {"endpoint": address}, "worker": None}
    terminal = console(file=output, force_terminal=True, width=60, color_system=None)
    terminal.print(services_text(document), soft_wrap=True)
    assert output.getvalue().splitlines() == [
        f"Prefect  {address}",
        "MLflow   down",
        f"S3       {address}",
        "worker   down",
    ]


@pytest.mark.parametrize("columns", [60, 80])
def test_the_live_display_fits_the_terminal(columns: int) -> None:
    output = io.StringIO()
    terminal = console(file=output, force_terminal=True, width=columns, color_system=None)
    with TrainingDisplay(terminal).show():
        for step in range(30):
            metrics = {name: value - step / 100 for name, value in METRICS.items()}
            report("iteration", step, step + 1, 30, metrics=metrics, timings={})
    last = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", output.getvalue()[output.getvalue().rindex("reward tool_agent") :])
    courses = [line.rstrip() for line in last.splitlines()[:3]]
    assert [line.split("  ")[0] for line in courses] == [f"reward {name.split('/')[1]}" for name in METRICS]
    assert all(line.endswith(" -0.10") and len(line) <= columns for line in courses)


def test_nothing_in_a_table_is_cut() -> None:
    output = io.StringIO()
    row = {
        "step": 1, "sampling": "sample", "interval": (0, 1), "n": 5, "success_rate": 0.5, "keep_rate": None,
        "repair_rate": None, "temperatures": {"an_agent_of_a_long_name": 0.7},
    }  # fmt: skip
    console(file=output, force_terminal=True, width=30, color_system=None).print(evaluations_table([row]))
    assert "…" not in output.getvalue()
