"""Tables of recorded rows, by the functions with which the benchmarks print them (`--list`)."""

from collections.abc import Sequence
from functools import cache
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


def arms_record() -> str:
    return record("arms")


def arms_success() -> str:
    return arm_table.success_table(arms_rows())


def arms_differences() -> str:
    return arm_table.difference_table(arms_rows())


def arms_doses() -> str:
    return arm_table.dose_table(arms_rows())


def arms_claims() -> str:
    return claims(arms_rows(), budget_tokens=BUDGET_TOKENS)


@cache
def credit_studies() -> Sequence[Study]:
    return [
        Study(game=game, seed=seed, num_steps=20, num_decisions=200, num_continuations=64, home=MEASURED / "credit")
        for game in credit.GAMES
        for seed in range(NUM_SEEDS)
    ]


def credit_record() -> str:
    return record("credit")


def credit_summary() -> str:
    return credit.summary(credit_studies())


@cache
def pretrained_orders() -> Sequence[Any]:
    return pretrained.orders(list(pretrained.TRAINED), num_seeds=NUM_SEEDS, num_steps=10, num_problems=300)


@cache
def pretrained_rows() -> Sequence[Any]:
    return pretrained.rows_of(pretrained_orders(), MEASURED / "pretrained")


def pretrained_record() -> str:
    return record("pretrained")


def pretrained_untrained() -> str:
    return pretrained_table.pass_table(pretrained_rows())


def pretrained_gains() -> str:
    return pretrained_table.gain_table(pretrained_rows())


def pretrained_differences() -> str:
    return pretrained_table.comparison_table(pretrained_rows())


def pretrained_doses() -> str:
    return pretrained_table.dose_table(pretrained_rows())


def pretrained_curves() -> str:
    return fenced(pretrained_table.curves(pretrained_rows()))


def pretrained_failures() -> str:
    return fenced(pretrained.failures(pretrained_orders(), MEASURED / "pretrained"))


def pretrained_verdict() -> str:
    return fenced(pretrained_table.verdict(pretrained_rows(), num_seeds=NUM_SEEDS))


@cache
def program_rows() -> Sequence[Any]:
    arms = [pretrained_runs.SINGLE_PROGRAM]
    wanted = pretrained.orders(arms, num_seeds=1, num_steps=10, num_problems=300)
    return pretrained.rows_of(wanted, MEASURED / "lone_program")


def program_record() -> str:
    return record("lone_program")


def program_gains() -> str:
    return pretrained_table.gain_table(program_rows())


def program_untrained() -> str:
    return pretrained_table.pass_table(program_rows())


def program_doses() -> str:
    return pretrained_table.dose_table(program_rows())


@cache
def population_rows() -> Sequence[Any]:
    return population_runs.rows_of_record(MEASURED / "populations")


def populations_record() -> str:
    return record("populations")


def populations_report() -> str:
    return "\n".join(population_report.lines_of(population_rows())).rstrip()


def fenced(text: str) -> str:
    return f"```text\n{text}\n```"
