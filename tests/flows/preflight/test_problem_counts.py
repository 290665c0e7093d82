"""A run that needs more problems than exist does not start."""

import re

import pytest

from components.errors import ConfigurationError
from components.runs.run import Run
from components.session.scenario import scenario_of
from components.session.session import Session
from flows.preflight import checks
from flows.preflight.problem_counts import check_problem_counts, required_problems
from flows.presets import preset_config, preset_values
from tests.preset_substitutes import without_downloads

SMALL_BOARD = "environment.options={size: 6, num_free: 3}"


@pytest.mark.parametrize("preset", sorted(preset_values()))
def test_every_preset_asks_for_problems_that_there_are(preset: str) -> None:
    check_problem_counts(scenario_of(preset_config(preset, without_downloads(preset))))


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["evaluation.num_problems=22"],
            "evaluation.num_problems 22: .*only 21 different problems for the suite 'test'",
        ),
        (["warm_start.num_check_problems=60"], r"warm_start\.num_check_problems 60: .*only 59 .*'train_check'"),
        (["rollout.num_problems=60"], r"rollout\.num_problems 60: .*only 59 .*'train'"),
        (["rollout.num_problems=60", "policies.team.base=smollm2-135m"], r"rollout\.num_problems 60: .*only 59 "),
    ],
)
def test_one_problem_too_many_is_named_with_its_field_and_how_many_there_are(
    overrides: list[str], message: str
) -> None:
    fitting = [SMALL_BOARD, "evaluation.num_problems=21", "warm_start.num_check_problems=59", "rollout.num_problems=59"]
    check_problem_counts(scenario_of(preset_config("stateful-eight-queens", fitting)))
    with pytest.raises(ConfigurationError, match=message) as caught:
        check_problem_counts(scenario_of(preset_config("stateful-eight-queens", [*fitting, *overrides])))
    assert "size" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_other_environments_run_out_too() -> None:
    options = "environment.options={num_blocks: 3, max_distance: 4, max_moves: 4}"
    with pytest.raises(
        ConfigurationError, match=r"warm_start\.num_check_problems 200: blocksworld .*has only \d+ diff"
    ):
        check_problem_counts(scenario_of(preset_config("stateful-blocksworld", [options])))


def test_models_that_are_not_cloned_need_no_problems_for_a_check() -> None:
    cloned, ready = (preset_config(preset, []) for preset in ("math-tiny", "math-smollm"))
    assert [demand.field for demand in required_problems(cloned)] == [
        "rollout.num_problems",
        "warm_start.num_check_problems",
        "evaluation.num_problems",
    ]
    assert [demand.field for demand in required_problems(ready)] == ["rollout.num_problems", "evaluation.num_problems"]


def test_preflight_counts_before_it_asks_for_a_store(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """The store does not exist and is not created."""
    config = preset_config(
        "stateful-eight-queens", [SMALL_BOARD, "store.kind=local", f"store.root={tmp_path / 'store'}"]
    )
    with (
        pytest.raises(ConfigurationError, match=re.escape("warm_start.num_check_problems 200")),
        Session(Run(run_id="r", config=config)) as session,
    ):
        checks.preflight(session)
    assert not (tmp_path / "store").exists()
