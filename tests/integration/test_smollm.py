"""The real SmolLM2: a team of `tests.benchmarks.pretrained`, its problems few and its answers short."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from tests.benchmarks.arm_runs import SAMPLINGS
from tests.benchmarks.pretrained import report
from tests.benchmarks.pretrained_play import evaluated
from tests.benchmarks.pretrained_runs import (
    ARMS,
    HELD_OUT,
    LONGER,
    MAIN,
    NUM_TRANSCRIPTS,
    UNTRAINED,
    Order,
    Row,
    check_base,
    solve_rates,
)
from tests.integration.outcomes import outcome
from tests.integration.trainings import Trainings, await_no_workers
from tests.smollm import needs_smollm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_smollm]
NUM_PROBLEMS = 3
SUITES_PLAYED = (HELD_OUT, LONGER)
SHORT = ("agents.tool_agent.max_new_tokens=16", "agents.reasoner.max_new_tokens=8")
SMALL = Order(
    arm=MAIN,
    num_steps=2,
    num_problems=NUM_PROBLEMS,
    overrides=(*SHORT, "rollout.num_problems=2", "rollout.group_size=4", "rollout.problems_per_block=2"),
)


def ordered(home: Path, run_id: str, **more: Any) -> dict[str, Any]:
    config = SMALL.config(home / "store").model_dump(mode="json")
    return {"run_id": run_id, "config": config, "summary": str(home / f"{run_id}.json"), **more}


@pytest.fixture(scope="module")
def home(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small run has been trained undisturbed."""
    home = tmp_path_factory.mktemp("smollm")
    assert trainings.run(ordered(home, SMALL.run_id)).code == 0, trainings.log()
    return home


def test_a_pretrained_team_that_is_killed_in_the_middle_ends_as_an_undisturbed_one(
    trainings: Trainings, home: Path
) -> None:
    stop = {"part": "/steps/000001/update_policy-", "moment": "computed"}
    ended = trainings.run(ordered(home, "cut", stop=stop))
    assert (ended.code, ended.stopped) == (-9, True), trainings.log()
    await_no_workers("cut")
    store = LocalArtifactStore(home / "store")
    assert len(outcome(store, "cut")["steps"]) == 1
    assert trainings.run(ordered(home, "cut")).code == 0, trainings.log()
    undisturbed = outcome(store, SMALL.run_id)
    assert outcome(store, "cut") == undisturbed
    one, other = (step["checkpoint_digest"]["team"] for step in undisturbed["steps"])
    assert one != other


def test_a_pretrained_team_plays_what_its_report_is_made_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        ARMS,
        MAIN,  # type: ignore[arg-type]
        replace(ARMS[MAIN], suites=SUITES_PLAYED),
    )
    config, steps = SMALL.config(home / "store"), outcome(LocalArtifactStore(home / "store"), SMALL.run_id)["steps"]
    check_base()
    found = evaluated(SMALL, config, home)
    row = Row(
        arm=MAIN,
        seed=0,
        **found,
        solve_rates=solve_rates(steps, list(config.agents)),
        num_steps=len(steps),
        num_tokens=1,
        num_updates=1,
        training_seconds=1.0,
        evaluation_seconds=1.0,
    )
    assert set(row.solved) == {f"{suite}, {sampling}" for suite in SUITES_PLAYED for sampling in SAMPLINGS}
    assert all(len(digits) == NUM_PROBLEMS and set(digits) <= {"0", "1"} for digits in row.solved.values())
    assert [[role for role, _ in each["said"]] for each in row.transcripts] == [list(config.agents)] * NUM_TRANSCRIPTS
    assert len({each["problem"] for each in row.transcripts}) == NUM_TRANSCRIPTS
    assert all(text for each in row.transcripts for _, text in each["said"])
    printed = report([replace(row, arm=UNTRAINED, passes={"team": [0]}), row], "none", num_seeds=1)
    for line in ("| held out | main, seed 0 |", "| level 1 | main, seed 0 |", "FAILED main, seed 0, greedy: the gain"):
        assert line in printed, printed
