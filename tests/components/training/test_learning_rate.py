import math

import pytest

from components.training.learning_rate import learning_rate


def _curve(schedule: str, *, warmup: int, total: int, peak: float = 1.0) -> list[float]:
    return [
        learning_rate(n, peak=peak, num_warmup_updates=warmup, total_updates=total, schedule=schedule)
        for n in range(total)
    ]


def test_constant_after_the_warm_up() -> None:
    assert _curve("constant", warmup=4, total=6, peak=2.0) == [0.5, 1.0, 1.5, 2.0, 2.0, 2.0]


def test_linear_ends_at_zero_on_the_last_update() -> None:
    assert _curve("linear", warmup=2, total=7) == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25, 0.0]


def test_cosine_is_half_a_wave() -> None:
    wanted = [0.5 * (1 + math.cos(math.pi * n / 4)) for n in range(5)]
    assert _curve("cosine", warmup=0, total=5) == pytest.approx(wanted)
    assert wanted[-1] == 0.0


def test_a_run_of_one_update_is_at_its_peak() -> None:
    assert _curve("linear", warmup=0, total=1) == [1.0]


def test_beyond_the_end_the_rate_stays_zero() -> None:
    assert learning_rate(9, peak=1.0, num_warmup_updates=0, total_updates=5, schedule="cosine") == 0.0
