"""Tables of recorded rows, by the functions with which the benchmarks print them (`--list`)."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import figure_tables

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
from benchmarks.kept import read_record

MEASURED = Path(__file__).resolve().parent.parent / "benchmarks" / "measured"
BUDGET_TOKENS = 300_000
NUM_SEEDS = 3
FIGURES = {
    "gyms": "hybrid_learning",
    "hybrid": "hybrid_modes",
    "leduc": "leduc",
    "trading": "trading",
    "long rows": "long_rows",
}


def write_record(name: str) -> str:
    """What measured a record, as a sentence."""
    measured = read_record(MEASURED / name)
    assert measured is not None, f"{MEASURED / name} is no record"
    stages = ", ".join(f"`{stage}` {version}" for stage, version in sorted(measured["stages"].items()))
    kept = f" Versions of stages: {stages}." if stages else " The runs were not kept, only these figures."
    return f"Measured by commit {measured['commit']}.{kept}"


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
def list_pretrained_orders() -> Sequence[Any]:
    return pretrained.orders(list(pretrained.TRAINED), num_seeds=NUM_SEEDS, num_steps=10, num_problems=300)


@cache
def load_pretrained_rows() -> Sequence[Any]:
    return pretrained.rows_of(list_pretrained_orders(), MEASURED / "pretrained")


@cache
def program_rows() -> Sequence[Any]:
    arms = [pretrained_runs.SINGLE_PROGRAM]
    wanted = pretrained.orders(arms, num_seeds=1, num_steps=10, num_problems=300)
    return pretrained.rows_of(wanted, MEASURED / "lone_program")


@cache
def population_rows() -> Sequence[Any]:
    return population_runs.rows_of_record(MEASURED / "populations")


def fence(text: str) -> str:
    return f"```text\n{text}\n```"


def write_poker() -> str:
    """The table of Kuhn poker, and below it a point for what else the report says of each run."""
    rows = [row for row in population_rows() if row.game == "kuhn"]
    table, _, *lines = population_report.poker_lines("kuhn", rows)
    return "\n".join([table, "", *(f"- {line}" for line in lines)])


def write_games(lines_of: Callable[[Sequence[Any]], list[str]], *games: str) -> str:
    """A table of the report of populations, of the games whose names begin so."""
    return "\n".join(lines_of([row for row in population_rows() if row.game.startswith(games)]))


TABLES: Mapping[str, Callable[[], str]] = {
    "arms record": partial(write_record, "arms"),
    "arms success": lambda: arm_table.success_table(arms_rows()),
    "arms differences": lambda: arm_table.difference_table(arms_rows()),
    "arms doses": lambda: arm_table.dose_table(arms_rows()),
    "arms claims": lambda: claims(arms_rows(), budget_tokens=BUDGET_TOKENS),
    "credit record": partial(write_record, "credit"),
    "credit summary": lambda: credit.summary(credit_studies()),
    "pretrained record": partial(write_record, "pretrained"),
    "pretrained untrained": lambda: pretrained_table.pass_table(load_pretrained_rows()),
    "pretrained gains": lambda: pretrained_table.gain_table(load_pretrained_rows()),
    "pretrained differences": lambda: pretrained_table.comparison_table(load_pretrained_rows()),
    "pretrained doses": lambda: pretrained_table.dose_table(load_pretrained_rows()),
    "pretrained curves": lambda: fence(pretrained_table.curves(load_pretrained_rows())),
    "populations record": partial(write_record, "populations"),
    "populations poker": write_poker,
    "populations games": partial(write_games, population_report.game_lines, "coop", "maze", "staged", "team"),
    "populations modes": partial(write_games, population_report.mode_lines, "public_goods,"),
    "populations led": partial(write_games, population_report.write_leader_lines, "public_goods .95"),
    "program record": partial(write_record, "lone_program"),
    "program gains": lambda: pretrained_table.gain_table(program_rows()),
    "program untrained": lambda: pretrained_table.pass_table(program_rows()),
    "program doses": lambda: pretrained_table.dose_table(program_rows()),
    **{f"{name} record": partial(write_record, folder) for name, folder in FIGURES.items()},
    **figure_tables.TABLES,
}
