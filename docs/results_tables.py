"""Tables of recorded rows, by the functions with which the benchmarks print them (`--list`)."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from benchmarks import (
    arm_runs,
    arm_table,
    credit,
    population_report,
    population_runs,
    pretrained,
    pretrained_runs,
    pretrained_table,
)
from benchmarks.arm_claims import claims
from benchmarks.credit_study import Study
from benchmarks.kept import recorded

MEASURED = Path(__file__).resolve().parent.parent / "benchmarks" / "measured"
BUDGET_TOKENS = 300_000
NUM_SEEDS = 3


def record(name: str) -> str:
    """What measured a record, as a sentence."""
    measured = recorded(MEASURED / name)
    assert measured is not None, f"{MEASURED / name} is no record"
    stages = ", ".join(f"`{stage}` {version}" for stage, version in sorted(measured["stages"].items()))
    return f"Measured by commit {measured['commit']}, with these versions of stages: {stages}."


@cache
def arms_rows() -> Sequence[Any]:
    wanted = arm_runs.orders(arm_runs.GAMES, list(arm_runs.RUNS), budget_tokens=BUDGET_TOKENS)
    return arm_runs.rows_of(wanted, MEASURED / "arms")


@cache
def credit_studies() -> Sequence[Study]:
    return [
        Study(game=game, seed=seed, num_steps=20, num_decisions=200, num_continuations=64, home=MEASURED / "credit")
        for game in credit.GAMES
        for seed in range(NUM_SEEDS)
    ]


@cache
def pretrained_orders() -> Sequence[Any]:
    return pretrained.orders(list(pretrained.TRAINED), num_seeds=NUM_SEEDS, num_steps=10, num_problems=300)


@cache
def pretrained_rows() -> Sequence[Any]:
    return pretrained.rows_of(pretrained_orders(), MEASURED / "pretrained")


@cache
def program_rows() -> Sequence[Any]:
    arms = [pretrained_runs.SINGLE_PROGRAM]
    wanted = pretrained.orders(arms, num_seeds=1, num_steps=10, num_problems=300)
    return pretrained.rows_of(wanted, MEASURED / "lone_program")


@cache
def population_rows() -> Sequence[Any]:
    return population_runs.rows_of_record(MEASURED / "populations")


def fenced(text: str) -> str:
    return f"```text\n{text}\n```"


TABLES: Mapping[str, Callable[[], str]] = {
    "arms record": partial(record, "arms"),
    "arms success": lambda: arm_table.success_table(arms_rows()),
    "arms differences": lambda: arm_table.difference_table(arms_rows()),
    "arms doses": lambda: arm_table.dose_table(arms_rows()),
    "arms claims": lambda: claims(arms_rows(), budget_tokens=BUDGET_TOKENS),
    "credit record": partial(record, "credit"),
    "credit summary": lambda: credit.summary(credit_studies()),
    "pretrained record": partial(record, "pretrained"),
    "pretrained untrained": lambda: pretrained_table.pass_table(pretrained_rows()),
    "pretrained gains": lambda: pretrained_table.gain_table(pretrained_rows()),
    "pretrained differences": lambda: pretrained_table.comparison_table(pretrained_rows()),
    "pretrained doses": lambda: pretrained_table.dose_table(pretrained_rows()),
    "pretrained curves": lambda: fenced(pretrained_table.curves(pretrained_rows())),
    "pretrained failures": lambda: fenced(pretrained.failures(pretrained_orders(), MEASURED / "pretrained")),
    "pretrained verdict": lambda: fenced(pretrained_table.verdict(pretrained_rows(), num_seeds=NUM_SEEDS)),
    "populations record": partial(record, "populations"),
    "populations report": lambda: "\n".join(population_report.lines_of(population_rows())).rstrip(),
    "program record": partial(record, "lone_program"),
    "program gains": lambda: pretrained_table.gain_table(program_rows()),
    "program untrained": lambda: pretrained_table.pass_table(program_rows()),
    "program doses": lambda: pretrained_table.dose_table(program_rows()),
}
