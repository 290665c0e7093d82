"""Attempts at runs of the proof on a pretrained model that ended with an error: kept, and told in every later report."""

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.arm_runs import seconds_of, tokens_of
from benchmarks.kept import read, read_record, write
from benchmarks.origin import read_origin
from benchmarks.pretrained_runs import Order, row_pattern, solve_rates, steps_so_far


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An attempt at a run that ended with an error, and how far it had come."""

    arm: str
    seed: int
    error: str
    """The traceback."""
    solve_rates: Mapping[str, Sequence[float]]
    num_steps: int
    num_tokens: int
    training_seconds: float
    processor: str
    commit: str

    @property
    def reason(self) -> str:
        return self.error.strip().splitlines()[-1]


def keep_failure(order: Order, home: Path, error: BaseException) -> Failure:
    """Keep what an attempt at a run ended with, beside what earlier ones did."""
    steps = steps_so_far(order, home)
    failure = Failure(
        arm=order.arm,
        seed=order.seed,
        error="".join(traceback.format_exception(error)),
        solve_rates=solve_rates(steps, list(order.config().agents)),
        num_steps=len(steps),
        num_tokens=sum(tokens_of(step) for step in steps),
        training_seconds=sum(seconds_of(step) for step in steps),
        **read_origin(),
    )
    write(home / "failed" / order.row_name / f"{len(failures_of(order, home)):03}.json", asdict(failure))
    return failure


def failures_of(order: Order, home: Path) -> list[Failure]:
    """The attempts at a run that ended with an error, the newest last, whether it was finished later or not."""
    found = sorted((home / "failed" / order.row_name).glob("*.json"))
    if not found and read_record(home) is not None:
        found = sorted((home / "failed").glob(f"{row_pattern(order)}/*.json"))
    return [Failure(**read(file)) for file in found]
