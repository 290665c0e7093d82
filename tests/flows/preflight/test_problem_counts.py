"""A run that needs more problems than exist does not start."""

import json
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import RunConfig, parse_config
from components.errors import ConfigDrift, ConfigurationError
from components.evaluation.suites import Suite
from components.runs.lineages import check_drift, freeze_config
from components.session.scenario import scenario_of
from flows.preflight.problem_counts import (
    check_problem_counts,
    keep_counts,
    list_required_problems,
    lower_default_counts,
)
from flows.presets import preset_config, preset_values
from flows.starts import overridden_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from flows.suites import suite_to_play
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


def test_models_that_are_not_cloned_need_no_problems_for_a_check() -> None:
    cloned, ready = (preset_config(preset, []) for preset in ("math-tiny", "math-smollm"))
    assert [demand.field for demand in list_required_problems(cloned)] == [
        "rollout.num_problems",
        "warm_start.num_check_problems",
        "evaluation.num_problems",
    ]
    assert [demand.field for demand in list_required_problems(ready)] == [
        "rollout.num_problems",
        "evaluation.num_problems",
    ]


def own_problems(tmp_path: Path, num_rows: int = 150, **sections: Any) -> RunConfig:
    """The documented configuration of one's own problems."""
    rows = (json.dumps({"question": f"What is {i} + 1?", "answer": str(i + 1)}) for i in range(num_rows))
    file = tmp_path / f"{num_rows}.jsonl"
    file.write_text("\n".join(rows))
    options = {"dataset": "custom", "train_source": {"path": str(file)}}
    values = {
        "num_steps": 1,
        "environment": {"name": "math", "options": options, "max_turns": 1},
        "agents": {role: {"policy": "team"} for role in ("tool_agent", "reasoner")},
        "policies": {"team": {"base": "smollm2-135m", "prompt_format": "chat"}},
    }
    return parse_config(values | sections)


def test_a_number_that_nobody_chose_is_as_many_as_there_are_and_a_chosen_one_stays(tmp_path: Path) -> None:
    default, chosen = own_problems(tmp_path), own_problems(tmp_path, evaluation={"num_problems": 40})
    assert default.evaluation.num_problems == chosen.evaluation.num_problems == 40
    for config in (default, overridden_config(default, ["seed=0"], None)):
        lowered, (line,) = lower_default_counts(scenario_of(config))
        found = lowered.evaluation.num_problems
        assert found < 40
        assert line.startswith(f"evaluation.num_problems is {found}: math has no more different problems")
        check_problem_counts(scenario_of(lowered))
        assert lower_default_counts(scenario_of(lowered)) == (lowered, []), "counted once"
    assert lower_default_counts(scenario_of(chosen))[1] == []
    with pytest.raises(ConfigurationError, match=r"evaluation\.num_problems 40: .*ask for at most"):
        check_problem_counts(scenario_of(lower_default_counts(scenario_of(chosen))[0]))


def test_a_run_keeps_its_numbers_of_problems_when_its_file_grows(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    first, lines = lower_default_counts(scenario_of(own_problems(tmp_path, num_rows=3)))
    assert [line.partition(" ")[0] for line in lines] == ["rollout.num_problems", "evaluation.num_problems"]
    freeze_config(store, "mine", first, PIPELINE)
    grown = own_problems(tmp_path, num_rows=400)
    new, lines = lower_default_counts(scenario_of(grown))
    assert (new.rollout.num_problems, new.evaluation.num_problems, lines) == (8, 40, [])
    kept, lines = keep_counts(new, grown, first)
    assert (kept.rollout, kept.evaluation) == (first.rollout, first.evaluation)
    assert lines[0].startswith(f"rollout.num_problems is {first.rollout.num_problems}, as the run was started with")
    same_file = {"environment": first.environment}
    check_drift(store, "mine", kept.model_copy(update=same_file), PIPELINE)
    with pytest.raises(ConfigDrift, match=r"rollout\.num_problems"):
        check_drift(store, "mine", new.model_copy(update=same_file), PIPELINE)
    chosen = own_problems(tmp_path, num_rows=400, evaluation={"num_problems": 40}, rollout={"num_problems": 8})
    assert keep_counts(chosen, chosen, first) == (chosen, [])
    assert keep_counts(new, grown, None) == (new, [])


@pytest.mark.parametrize(
    ("overrides", "lowered"),
    [
        (["evaluation={}", "warm_start={}", "rollout={}"], {"evaluation": 21, "warm_start": 59}),
        (["evaluation={}", "warm_start={}", "rollout={num_problems: 59}"], {"evaluation": 21, "warm_start": 59}),
        (["evaluation={num_problems: 9}", "warm_start={}", "rollout={}"], {"warm_start": 59}),
        (["evaluation={every: 1}", "warm_start={num_check_problems: 9}"], {"evaluation": 21}),
    ],
)
def test_each_default_is_lowered_by_itself(overrides: list[str], lowered: dict[str, int]) -> None:
    config = preset_config("stateful-eight-queens", [SMALL_BOARD, *overrides])
    found, lines = lower_default_counts(scenario_of(config))
    assert [line.partition(".")[0] for line in lines] == [
        name for name in ("warm_start", "evaluation") if name in lowered
    ]
    for section, number in lowered.items():
        name = "num_check_problems" if section == "warm_start" else "num_problems"
        assert getattr(getattr(found, section), name) == number
    check_problem_counts(scenario_of(found))


def test_a_suite_without_a_number_has_as_many_problems_as_there_are(caplog: pytest.LogCaptureFixture) -> None:
    small = [SMALL_BOARD]
    for given, number in ((None, 21), (5, 5), (22, 22)):
        found = suite_to_play("stateful-eight-queens", None, small, num_problems=given)
        assert found.suite.num_problems == number
    assert caplog.messages == ["eight_queens/test has only 21 different problems; all are played"]
    environment = preset_config("stateful-eight-queens", small).environment
    declared = [Suite(environment=environment), Suite(environment=environment, num_problems=22)]
    assert [suite_to_play(suite, None).suite.num_problems for suite in declared] == [21, 22]
