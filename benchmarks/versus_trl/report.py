"""The table, the verdicts, and the raw numbers as csv."""

import csv
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.versus_trl.outcomes import Goal, Outcome, by_round, goal_ratio, mean_by_step, median_ratio

LEAST_SPEED_RATIO = 1.5
MOST_MEMORY_RATIO = 1.0


def table(outcomes: Sequence[Outcome], arms: Sequence[str], *, goal: Goal) -> str:
    """A line an arm: medians over rounds."""
    head = f"{'':24}{'samples/s':>10}{'tokens/s':>10}{'PSS MiB':>9}{'+server':>9}{'RSS MiB':>9}{'procs':>7}{'CPU s':>8}"
    lines = [f"{head}{f'samples to {goal.success}':>20}{'success':>9}"]
    for arm in arms:
        mine = [each for each in outcomes if each.arm == arm]
        values = {
            name: statistics.median(getattr(each, name) for each in mine)
            for name in (
                "samples_per_second",
                "tokens_per_second",
                "pss_mib",
                "services_pss_mib",
                "rss_mib",
                "num_processes",
                "cpu_seconds",
            )
        }
        success = statistics.mean(each.last_success for each in mine)
        numbers = (
            f"{speed(values['samples_per_second']):>10}{values['tokens_per_second']:10.0f}{values['pss_mib']:9.0f}"
            f"{values['services_pss_mib']:9.0f}{values['rss_mib']:9.0f}{values['num_processes']:7.0f}{values['cpu_seconds']:8.1f}"
        )
        lines.append(f"{arm:24}{numbers}{describe_reached(mine):>20}{success:9.3f}")
    return "\n".join(lines)


def speed(samples_per_second: float) -> str:
    """**Example** "1197", and "4.31" for less than ten a second."""
    return f"{samples_per_second:.0f}" if samples_per_second >= 10.0 else f"{samples_per_second:.2f}"


def curve(results: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """A line an arm: success by step and the tokens of an answer, means over seeds."""
    lines = []
    for arm, mine in results.items():
        rates = mean_by_step([result["success_rates"] for result in mine])
        lengths = mean_by_step([[tokens / result["num_samples"] for tokens in result["num_tokens"]] for result in mine])
        lines.append(f"{arm:24}success by step{''.join(f'{rate:7.3f}' for rate in rates)}")
        lines.append(f"{'':24}tokens by step {''.join(f'{length:7.1f}' for length in lengths)}")
    return "\n".join(lines)


def describe_reached(mine: Sequence[Outcome]) -> str:
    """The median over seeds, and how many of them came there.

    **Example** three runs that took 5120 and 6144 samples and more than 10240: "6144 (2/3)".
    """
    number = sum(each.samples_to_goal is not None for each in mine)
    median = statistics.median(each.least_samples_to_goal for each in mine)
    beyond = "" if 2 * number > len(mine) else ">"
    return f"{beyond}{median:.0f} ({number}/{len(mine)})"


def verdicts(outcomes: Sequence[Outcome], ours: str, theirs: str, *, goal: Goal) -> str:
    """What is required of `ours` beside `theirs`, and whether it holds."""
    mine, other = ([each for each in outcomes if each.arm == arm] for arm in (ours, theirs))
    speed, memory = (median_ratio(mine, other, field) for field in ("samples_per_second", "whole_pss_mib"))
    rows = [
        (f"samples/s: {speed:.2f} times (at least {LEAST_SPEED_RATIO})", describe_verdict(speed >= LEAST_SPEED_RATIO)),
        (
            f"peak memory with services: {memory:.2f} times (at most {MOST_MEMORY_RATIO})",
            describe_verdict(memory <= MOST_MEMORY_RATIO),
        ),
        goal_verdict(mine, other, goal),
    ]
    lines = [f"  {text:76}{verdict}" for text, verdict in rows]
    return "\n".join([f"{ours} beside {theirs}, medians of the ratios of one round:", *lines])


def goal_verdict(mine: Sequence[Outcome], other: Sequence[Outcome], goal: Goal) -> tuple[str, str]:
    """No worse: every run of ours came there, and the interval of the ratio begins at 1 or below.

    A run of theirs that did not come there, and was given fewer samples than ours took, proves nothing.
    """
    if all(each.samples_to_goal is None for each in (*mine, *other)):
        most = max(each.num_samples for each in (*mine, *other))
        return f"samples to {goal.success}: neither came there in {most} samples", "not compared"
    pairs = list(zip(by_round(mine), by_round(other), strict=True))
    known = [his.samples_to_goal is not None or own.least_samples_to_goal <= his.num_samples for own, his in pairs]
    if not all(known):
        most = max(each.num_samples for each in other)
        return f"samples to {goal.success}: {other[0].arm} did not come there in its {most} samples", "not compared"
    ratio, low, high = goal_ratio(mine, other)
    text = f"samples to {goal.success}: {ratio:.2f} times, 95% interval {low:.2f} to {high:.2f} (not above 1)"
    return text, describe_verdict(low <= 1.0 and all(each.samples_to_goal is not None for each in mine))


def describe_verdict(holds: bool) -> str:
    """A verdict as a word."""
    return "held" if holds else "MISSED"


def write_raw(outcomes: Sequence[Outcome], results: Mapping[tuple[str, int], Mapping[str, Any]], folder: Path) -> None:
    """`runs.csv`, a line per run, and `steps.csv`, a line per step; seconds count from the end of the first step."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "runs.csv").open("w", newline="", encoding="utf-8") as file:
        runs = csv.DictWriter(file, fieldnames=list(asdict(outcomes[0])))
        runs.writeheader()
        runs.writerows(asdict(each) for each in outcomes)
    with (folder / "steps.csv").open("w", newline="", encoding="utf-8") as file:
        steps = csv.writer(file)
        steps.writerow(("arm", "round", "step", "ended_at_seconds", "success_rate", "num_tokens"))
        for (arm, number), result in results.items():
            ended_at = result["step_ended_at"]
            columns = zip(ended_at, result["success_rates"], result["num_tokens"], strict=True)
            for step, (at, success, num_tokens) in enumerate(columns):
                steps.writerow((arm, number, step, f"{at - ended_at[0]:.4f}", f"{success:.5f}", int(num_tokens)))
