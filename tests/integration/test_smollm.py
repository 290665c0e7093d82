"""The real SmolLM2: a team of `benchmarks.pretrained`, its problems few and its answers short."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.arm_runs import SAMPLINGS
from benchmarks.pretrained import report
from benchmarks.pretrained_play import evaluate_run
from benchmarks.pretrained_runs import (
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
from components.artifacts import payloads
from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef
from components.runs.run import Run
from components.runs.step_records import step_manifests
from components.runs.steps import checkpoints_before
from components.schema import TrainBatch
from components.session.session import Session
from flows.own_files import with_sources
from flows.preflight.checks import imitates_bfloat16
from tasks.refresh_weights import load_checkpoint
from tests.integration.outcomes import outcome
from tests.integration.trainings import Trainings, await_no_workers
from tests.smollm import needs_smollm

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), needs_smollm]
NUM_PROBLEMS = 3
SUITES_PLAYED = (HELD_OUT, LONGER)
SHORT = ("agents.tool_agent.max_new_tokens=16", "agents.reasoner.max_new_tokens=8")
OWN = (
    "rewards.functions=['tests.integration.vowels:vowels']",
    "agents.tool_agent.temperature=1.0",
    "agents.reasoner.temperature=1.0",
    "policies.team.learning_rate=0.001",
)
"""Hardly any two answers earn the same, they are sampled at the temperature at which an engine scores them, and an update
changes scores by much more than bfloat16 rounds them."""
FAST = ("generation.dtype=float32", "training.dtype=float32") if imitates_bfloat16() else ()
SMALL = Order(
    arm=MAIN,
    num_steps=2,
    num_problems=NUM_PROBLEMS,
    overrides=(*SHORT, *OWN, *FAST, "rollout.num_problems=1", "rollout.group_size=4", "rollout.problems_per_block=1"),
)


def make_order(home: Path, run_id: str, **more: Any) -> dict[str, Any]:
    config = SMALL.config(home / "store").model_dump(mode="json")
    return {"run_id": run_id, "config": config, "summary": str(home / f"{run_id}.json"), **more}


@pytest.fixture(scope="module")
def begun(trainings: Trainings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small run has updated once and played with that."""
    home = tmp_path_factory.mktemp("smollm")
    stop = {"part": "/steps/000001/compute_advantages-v*/", "moment": "committed"}
    assert trainings.run(make_order(home, SMALL.run_id, stop=stop)).stopped, trainings.log()
    return home


@pytest.fixture(scope="module")
def home(begun: Path, trainings: Trainings) -> Path:
    """Where it has been trained to its end."""
    assert trainings.run(make_order(begun, SMALL.run_id)).code == 0, trainings.log()
    return begun


KILLS = (("collect_rollouts", "committed"), ("update_policy", "computed"))


@pytest.mark.long
def test_a_pretrained_team_that_is_killed_twice_ends_as_an_undisturbed_one(trainings: Trainings, home: Path) -> None:
    store = LocalArtifactStore(home / "store")
    for stage, moment in KILLS:
        stop = {"part": f"/steps/000001/{stage}-", "moment": moment}
        ended = trainings.run(make_order(home, "cut", stop=stop))
        assert (ended.code, ended.stopped) == (-9, True), f"{stage}: {trainings.log()}"
        await_no_workers("cut")
        assert len(outcome(store, "cut")["steps"]) == 1
    assert trainings.run(make_order(home, "cut")).code == 0, trainings.log()
    undisturbed = outcome(store, SMALL.run_id)
    assert outcome(store, "cut") == undisturbed
    one, other = (step["checkpoint_digest"]["team"] for step in undisturbed["steps"])
    assert one != other


def test_an_update_of_a_pretrained_team_favours_its_better_answers_and_the_next_step_is_played_by_it(
    begun: Path,
) -> None:
    config = with_sources(SMALL.config(begun / "store"))
    with Session(Run(run_id=SMALL.run_id, config=config)) as session:
        batches = [team_batch(session, step) for step in (0, 1)]
        scores = [mean_logprobs(session, step, batches) for step in (0, 1)]
    advantages = [advantage for group in batches[0].groups for advantage in group.advantages_K]
    assert len(advantages) >= 8, "a problem of two agents, four candidates each"
    gained = sum(a * (y - x) for a, x, y in zip(advantages, scores[0][0], scores[1][0], strict=True))
    assert gained > 0, f"worse answers are favoured: {gained}"
    sampled = [statistics.fmean(each) for group in batches[1].groups for each in group.sampler_logprobs_K_T]
    unlike = [sum(abs(x - y) for x, y in zip(sampled, scores[step][1], strict=True)) for step in (0, 1)]
    assert unlike[1] < 0.5 * unlike[0], f"step 1 is played by the weights before the update: {unlike}"


def team_batch(session: Session, step: int) -> TrainBatch:
    """What the update of a step was computed from."""
    (manifest,) = [
        each for each in step_manifests(session.store, session.run, step, {}) if each.stage == "compute_advantages"
    ]
    ref = ArtifactRef.model_validate(manifest.output["batches"]["team"])
    return payloads.get(session.store, ref, TrainBatch)


def mean_logprobs(session: Session, step: int, batches: list[TrainBatch]) -> list[list[float]]:
    """By batch, the mean log-probability of the tokens of each answer under the engine with the checkpoint before `step`."""
    load_checkpoint(session, checkpoints_before(session.store, session.run, step)["team"])
    engine = session.engines.of("team")
    found = []
    for batch in batches:
        rows = [(group.prompt_tokens, tokens) for group in batch.groups for tokens in group.completions_K_T]
        found.append([statistics.fmean(each) for each in engine.score(*zip(*rows, strict=True))])
    return found


@pytest.mark.long
def test_a_pretrained_team_plays_what_its_report_is_made_of(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        ARMS,
        MAIN,  # type: ignore[arg-type]
        replace(ARMS[MAIN], suites=SUITES_PLAYED),
    )
    config, steps = SMALL.config(home / "store"), outcome(LocalArtifactStore(home / "store"), SMALL.run_id)["steps"]
    check_base()
    found = evaluate_run(SMALL, config, home)
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
