import pytest

from benchmarks.preset_minutes import Timing, minutes


@pytest.mark.parametrize(
    ("num_steps", "every", "seconds"),
    [
        (2, 10, 15),  # all of it was timed
        (62, 10, 15 + 60 * 2 + 6 * 3),
        (62, 0, 15 + 60 * 2),
        (3, 1, 15 + 2 + 3),
    ],
)
def test_what_is_left_takes_what_the_first_steps_and_evaluation_took(
    num_steps: int, every: int, seconds: float
) -> None:
    timing = Timing(step_ends=[10.0, 12.0], end=15.0, evaluation_seconds=3.0)
    assert minutes(timing, num_steps=num_steps, every=every) * 60 == pytest.approx(seconds)
