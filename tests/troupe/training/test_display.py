"""What a training run shows while it works."""

import io
import threading
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from components.reporting.progress import Progress, report, subscribe
from components.schema import EvalReport
from tests.waits import lines_without_waits
from troupe import consoles
from troupe.cli.runs import progress_bar
from troupe.consoles import Heartbeat
from troupe.runs.summary import gain_line, print_summary
from troupe.runs.tables import evaluations_table, scale_spark
from troupe.training.display import StepClock, TrainingDisplay, format_held_out


def eval_report(step: int, success_rate: float, sampling: str = "greedy") -> EvalReport:
    return EvalReport(
        agent="r", suite="test", suite_digest="d", seed=0, num_samples=1, num_solved_P=(0,) * 500,
        step=step, sampling=sampling, n=500, num_successes=round(500 * success_rate),  # type: ignore[arg-type]
        success_rate=success_rate, interval=(success_rate - 0.04, success_rate + 0.04), mean_reward=1.0,
        keep_rate=0.9, repair_rate=None,
        metrics={"eval/greedy/plan_agent/solve_rate": 0.0, "eval/greedy/plan_agent/malformed_rate": 0.81},
    )  # fmt: skip


def show_run(*, terminal: bool) -> str:
    """A short run as a terminal or a log shows it."""
    output = io.StringIO()
    console = Console(file=output, force_terminal=terminal, width=80, color_system=None)
    display = TrainingDisplay(console)
    with display.show() if terminal else subscribe(display.hear):
        report("links", 0, 1, 1, Prefect="http://127.0.0.1:4200/flow-runs/flow-run/" + "f" * 36, MLflow=None)
        report("evaluated", 0, 1, 1, report=eval_report(0, 0.502))
        report(
            "links",
            0,
            1,
            1,
            Prefect="http://127.0.0.1:4200/flow-runs/flow-run/" + "f" * 36,
            MLflow="http://x/" + "m" * 90,
        )
        metrics = {"rollout/success_rate": 0.91, "reward/plan_agent/mean": 1.25}
        metrics |= {"reward/plan_agent/solve_rate": 0.5, "rollout/plan_agent/malformed_rate": 0.25}
        report("iteration", 0, 1, 1, metrics=metrics, timings={"time/rollout_seconds": 1.5})
        report("evaluated", 1, 1, 1, report=eval_report(1, 0.734))
    return output.getvalue()


def test_held_out_success_stands_above_what_training_play_solves() -> None:
    text = show_run(terminal=True)
    last = text[text.rindex("held-out success") :]
    assert last.startswith("held-out success, greedy  0.502 -> 0.734  at step 1  (0.694 to 0.774, n 500)")
    assert last.index("0.502 -> 0.734") < last.index("solved, best of group")


def test_a_log_gets_each_evaluation_with_its_score() -> None:
    lines = show_run(terminal=False).splitlines()
    assert [line for line in lines if line.startswith("held-out")] == [
        "held-out success, greedy  0.502  at step 0  (0.462 to 0.542, n 500)",
        "held-out success, greedy  0.502 -> 0.734  at step 1  (0.694 to 0.774, n 500)",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_the_first_evaluation_and_the_first_step_say_what_the_answers_are(terminal: bool) -> None:
    told = [line.strip() for line in show_run(terminal=terminal).splitlines() if "answers " in line]
    assert [line[line.index("answers") :] for line in told] == [
        "answers before training, greedy: plan_agent 0% right, 81% malformed",
        "answers in step 0: plan_agent 50% right, 25% malformed",
    ]


def test_a_step_has_the_number_that_every_other_place_gives_it() -> None:
    assert [line for line in show_run(terminal=False).splitlines() if line.startswith("step")] == [
        "step 0 (1 of 1)  solved, best of group 0.91  reward plan_agent 1.25  1.5 s"
    ]


def test_addresses_come_first_once_and_whole() -> None:
    lines = show_run(terminal=False).splitlines()
    assert lines[0] == "Prefect  http://127.0.0.1:4200/flow-runs/flow-run/" + "f" * 36
    assert [line for line in lines if line.startswith("MLflow")] == ["MLflow   http://x/" + "m" * 90]
    assert sum(line.startswith("Prefect") for line in lines) == 1


def test_a_course_names_its_least_and_greatest_value() -> None:
    assert scale_spark([0.31, 0.5, 0.71]) == "0.71  0.31 ▁▄█ 0.71"
    assert scale_spark([]) == ""


def test_one_evaluation_is_no_course() -> None:
    assert "->" not in format_held_out([eval_report(0, 0.5)])


def test_the_summary_begins_with_held_out_success_before_and_after() -> None:
    output = io.StringIO()
    reports = [
        {
            "step": step, "sampling": "greedy", "success_rate": rate, "interval": [0.0, 1.0], "n": 500,
            "keep_rate": 0.9, "repair_rate": None, "suite_digest": f"of step {step}", "num_solved_P": [],
        }
        for step, rate in ((0, 0.5), (100, 0.75))
    ]  # fmt: skip
    summary = {
        "run_id": "r", "store_option": "",
        "evaluations": reports, "num_steps": 100, "seconds": 1.0, "checkpoint_digest": {"team": "0" * 64},
        "api_usage": {}, "num_unpublished": 3, "refusal": "no metric's name", "run_url": None, "flow_run_url": None,
        "graph_command": "troupe view r --graph",
    }  # fmt: skip
    print_summary(Console(file=output, width=80, color_system=None), summary)
    assert "3 reports are in the store and not in MLflow, which refuses them: no metric's name" in " ".join(
        output.getvalue().split()
    )
    first, *rest = output.getvalue().strip().splitlines()
    assert first == "held-out success, greedy  0.500 -> 0.750 (+0.250)"
    assert rest[0] == "    last agent: keeps good proposals 0.90 -> 0.90, repairs bad ones – -> –"
    assert "Graph    troupe view r --graph" in rest


def test_a_game_that_nobody_solves_or_everybody_tells_what_it_pays() -> None:
    def make_values(rate: float, **pays: float) -> dict[str, Any]:
        values = {"step": 0, "sampling": "sample", "suite_digest": "d", "num_solved_P": [], "success_rate": rate}
        return {**values, "metrics": {f"eval/sample/{agent}/payoff": paid for agent, paid in pays.items()}}

    line = gain_line(make_values(0.0, ann=0.5, bob=-0.5), make_values(0.0, ann=0.25, bob=-0.25)).plain
    assert line == "held-out payoffs, sample  ann 0.500 -> 0.250, bob -0.500 -> -0.250"
    for before, after in (
        (make_values(1.0, ann=1.0), make_values(1.0, ann=2.0)),
        (make_values(0.0, a=0.0, b=1.0), make_values(0.5, a=0.0, b=1.0)),
    ):
        assert gain_line(before, after).plain.startswith("held-out success, sample")


def test_keeping_and_repairing_are_told_of_teams_alone() -> None:
    report = {"step": 0, "sampling": "greedy", "success_rate": 0.5, "interval": [0.0, 1.0], "n": 9, "suite_digest": "d"}
    alone = {**report, "num_solved_P": [], "keep_rate": None, "repair_rate": None}
    assert "last agent" not in gain_line(alone, alone).plain
    assert [column.header for column in evaluations_table([alone]).columns][-1] == "n"
    assert "last agent" in gain_line(alone, {**alone, "repair_rate": 0.0}).plain


def test_a_warm_start_that_is_read_from_the_store_says_so() -> None:
    output = io.StringIO()
    with subscribe(TrainingDisplay(Console(file=output, width=80, color_system=None)).hear):
        for facts in ({"reused": True, "seconds": 20.0}, {"reused": False, "seconds": 20.0}):
            report("warm_start", 0, 1, 1, **facts)
    assert output.getvalue().splitlines() == ["warm start  read from the store", "warm start  took 20 s"]


def test_the_gain_has_the_interval_of_the_pairs_of_one_suite() -> None:
    def make_values(step: int, solved: list[bool]) -> dict[str, Any]:
        values = {"sampling": "greedy", "keep_rate": None, "repair_rate": None, "suite_digest": "d"}
        return {**values, "step": step, "num_solved_P": solved, "success_rate": sum(solved) / len(solved)}

    before, after = make_values(0, [True] * 38 + [False] * 12), make_values(9, [True] * 36 + [False] * 2 + [True] * 12)
    line = gain_line(before, after).plain.splitlines()[0]
    assert line == "held-out success, greedy  0.760 -> 0.960 (+0.200, 95% interval +0.057 to +0.340)"
    for other in ({**after, "suite_digest": "another"}, {**after, "step": 0}):
        assert "interval" not in gain_line(before, other).plain


@pytest.mark.parametrize("seconds", [0.5, 4.0, 31.0, 171.6, 4000.0])
def test_the_time_to_go_is_known_after_one_step_of_any_length(seconds: float) -> None:
    now = 0.0
    clock = StepClock(lambda: now)
    clock.start()
    assert clock.words() == ""
    for num_to_go in range(5, 0, -1):
        now += seconds
        clock.finish(num_to_go)
        assert clock.remaining_seconds() == pytest.approx(seconds * num_to_go)
    now += seconds / 2
    assert clock.remaining_seconds() == pytest.approx(seconds / 2)
    now += 10 * seconds
    assert clock.words() == "about 0:00:00 to go", "a late step"
    clock.finish(0)
    assert clock.words() == ""


def test_a_log_names_the_steps_and_the_time_to_go() -> None:
    output = io.StringIO()
    display = TrainingDisplay(Console(file=output, width=200, color_system=None))
    display.hear(Progress(stage="collect_rollouts", step=0, done=0, total=4))
    display.hear(Progress(stage="iteration", step=0, done=1, total=3, facts={"timings": {"time/x_seconds": 2.0}}))
    assert output.getvalue() == "step 0 (1 of 3)  2.0 s  2 steps left  about 0:00:00 to go\n"


def test_a_silent_log_says_what_is_done_how_far_and_why_cloning_stops() -> None:
    output = io.StringIO()
    display = TrainingDisplay(Console(file=output, width=200, color_system=None))
    for policy, share_done in (("one", 0.25), ("two", 0.5), ("one", 0.75)):
        display.hear(Progress(stage="update_policy", step=0, done=share_done, total=1, facts={"policy": policy}))
    display.say_stage()
    display.hear(Progress(stage="play_suite", step=0, done=12.7, total=40))
    display.say_stage()
    display.hear(Progress(stage="warm_start", step=0, done=9, total=20, facts={"success": 0.5, "enough": 0.3}))
    assert [line.partition("  0:00")[0] for line in output.getvalue().splitlines()] == [
        "update 62% policy one",
        "held-out play 12/40",
        "warm start 9/20  success 0.5  stops here: warm_start.min_success 0.3 is reached",
    ]


def test_a_silence_is_broken(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    spoken = threading.Event()
    with Heartbeat(spoken.set, every_seconds=0.01).beating():
        assert spoken.wait(120)
    speakers: list[Callable[[], None]] = []

    class Kept(Heartbeat):
        def __init__(self, speak: Callable[[], None]) -> None:
            super().__init__(speak, every_seconds=1e6)
            speakers.append(speak)

    monkeypatch.setattr(consoles, "Heartbeat", Kept)
    with consoles.show_wait("loading", Console(file=io.StringIO())) as show:
        speakers[0]()
        show("checking")
        speakers[0]()
    with consoles.show_wait("unheard", Console(quiet=True)):
        speakers[1]()
    with progress_bar("plan-path", doing="evaluating") as progress:
        speakers[2]()
        progress(3, 40)
        speakers[2]()
    told = capsys.readouterr().err
    assert told.splitlines() == [
        "loading: 0 s",
        "checking: 0 s",
        "evaluating plan-path",
        "evaluating plan-path: 3 of 40",
    ]
    assert lines_without_waits(told) == []
