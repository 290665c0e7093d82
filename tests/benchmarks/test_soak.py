"""What grew between the second fifth of a run and its last."""

import pytest

from benchmarks.soak import Sample, bytes_per_step, growths

KEY, DISK, PASSING = ("run", "memory MiB"), ("s3", "bytes on disk"), ("worker", "threads")


def samples() -> list[Sample]:
    """100 steps: a start of 500 MiB that a run needs for a moment, then 100 MiB and a tenth of a MiB more each step."""
    return [
        Sample(
            step=step,
            figures={
                KEY: 500.0 if step < 21 else 100 + step / 10,
                DISK: 7.0 * step,
                **({PASSING: 1.0} if step < 70 else {}),
            },
        )
        for step in range(101)
    ]


def test_growth_is_from_the_second_tenth_to_the_last_of_what_both_have() -> None:
    found = growths(samples())
    assert found.keys() == {KEY, DISK}
    assert (found[KEY].early, found[KEY].middle, found[KEY].late) == pytest.approx((103.05, 105.05, 109.05))
    assert found[KEY].slope == pytest.approx(109.05 / 103.05 - 1)
    assert bytes_per_step(samples(), DISK) == 7.0


def test_a_run_that_was_too_short_to_tell_says_so() -> None:
    with pytest.raises(ValueError, match="with 4 samples; take more steps"):
        growths(samples()[:5])
