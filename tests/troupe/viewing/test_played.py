"""The same problems at two checkpoints: played now with the seeds of then."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.errors import ConfigurationError
from components.models.loading import prepare_model_folder
from components.rollout.sampler import collect_shard
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.steps import finish_step
from components.session.session import Session
from components.training.checkpoint import write_initial_checkpoint
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tasks.warm_start import warm_start
from tests.recorded_rollouts import commit_rollouts
from troupe.cli import app
from troupe.teams.run_team import run_team
from troupe.viewing.played import play_recorded
from troupe.viewing.recorded import read_recorded


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> LocalArtifactStore:
    """Holds the run "r": rollouts of step 0 by weights of the warm start, and an update that left random weights."""
    root = tmp_path_factory.mktemp("played")
    (root / "store").mkdir()
    overrides = ["store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", "num_steps=1"]
    config = preset_config("tiny", [*overrides, "warm_start.max_steps=20", "warm_start.check_every=20"])
    run = Run(run_id="r", config=config)
    with Session(run) as session:
        warm_start.fn(session)
        freeze_config(session.store, "r", config, PIPELINE)
        record_initial_checkpoints(session.store, session.run, PIPELINE)
        alphabet = session.scenario.family.alphabet(session.scenario.options)
        prepare_model_folder(config.policies["team"], alphabet=alphabet, seed=7, into=root / "model")
        write_initial_checkpoint(root / "model", root / "checkpoint", "team")
        checkpoint = session.copies.store(root / "checkpoint", base=None)
    with run_team(run, 0) as team:
        scenario = team.session.scenario
        for part in range(config.rollout.num_shards):
            plan = scenario.shard_plan(step=0, shard=part)
            made = collect_shard(plan, family=scenario.family, router=team.router, rubric=scenario.training_rubric)
            commit_rollouts(session.store, run, made)
    finish_step(session.store, run, 0, {"team": checkpoint.model_copy(update={"step": 1})})
    return LocalArtifactStore(root / "store")


def test_the_weights_of_the_record_play_it_again(store: LocalArtifactStore) -> None:
    recorded = read_recorded(store, "r", 0)
    again = play_recorded(recorded, 0, store_uri=store.uri)
    assert [each.episode for each in again.episodes] == [each.episode for each in recorded.episodes]
    assert again.versions == recorded.versions
    assert all(each.is_scored and each.advantages_N_K is not None for each in again.episodes)


def test_other_weights_play_the_same_problems_beside_it(store: LocalArtifactStore, tmp_path: Path) -> None:
    problem = read_recorded(store, "r", 0).episodes[1].episode.problem.problem_id
    before = {path: path.stat().st_mtime_ns for path in Path(store.uri.removeprefix("file://")).rglob("*")}
    command = ["view", "r", "--step", "0", "--against", "1", "--play", "--problem", problem, "--store", store.uri]
    ended = CliRunner().invoke(app, [*command, "--json"])
    assert ended.exit_code == 0, ended.output
    document = json.loads(ended.stdout)
    [one], [other] = (document[side]["episodes"] for side in ("main", "against"))
    assert one["problem"] == other["problem"] == problem
    assert one["nodes"][0]["candidates"] != other["nodes"][0]["candidates"]
    prompts = [
        document[side]["prompts"][side_of["nodes"][0]["prompt"]]
        for side, side_of in (("main", one), ("against", other))
    ]
    assert prompts[0] == prompts[1]
    assert document["main"]["versions"] != document["against"]["versions"]
    assert document["against"]["notes"] == [
        "played now by the weights of step 1, with the problems and seeds of step 0"
    ]
    assert {path: path.stat().st_mtime_ns for path in Path(store.uri.removeprefix("file://")).rglob("*")} == before


def test_a_step_that_the_run_has_not_reached_is_told(store: LocalArtifactStore) -> None:
    with pytest.raises(ConfigurationError, match="step 7 of run r: it has finished 1 updates"):
        play_recorded(read_recorded(store, "r", 0), 7, store_uri=store.uri)
