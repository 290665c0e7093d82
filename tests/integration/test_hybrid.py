"""A hybrid run, killed at every stage, ends as it would have ended; its history follows from what is stored."""

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from components.artifacts.layout import file_sha256
from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import read_as
from components.artifacts.refs import ArtifactRef, CheckpointRef, StageManifest
from components.errors import ArtifactCorrupt, ConfigurationError
from components.hybrid.decision_history import DecisionHistory
from components.methods.hybrid.decision_histories import history_file, record_step
from components.methods.hybrid.evaluation import HeldOutGames
from components.methods.hybrid.learner_checkpoints import read_learner, store_learner
from components.methods.open_subjects import run_checkpoints
from components.runs.gc import collect_garbage
from components.runs.initial_checkpoints import initial_checkpoints
from components.runs.removal import removal_of_run, remove
from components.runs.step_records import step_of
from components.runs.steps import checkpoints_before
from components.runs.stored_runs import read_run
from components.session.session import Session
from flows.presets import preset_values
from tests.integration.outcomes import order, outcome
from tests.integration.trainings import Trainings, await_no_workers
from troupe.cli import app
from troupe.exporting.export import export
from troupe.runs.documents import run_document
from troupe.runs.verify import verify_document
from troupe.viewing import episode_gif

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
BOUNDARIES = (
    "/steps/000001/collect_experience-v*/",
    "/steps/000001/update_learner-v*/reflexes/",
    "/steps/000003/evaluate_policy-v*/sample/",
)
LEARNING_BOUNDARIES = (
    "/steps/000000/update_learner-v*/player/",
    "/steps/000002/collect_experience-v*/",
)
"""test_kill_and_resume.py has the stages of every method."""


def config(root: Path) -> dict[str, Any]:
    return {
        **preset_values()["hybrid-tiny"],
        "store": {"kind": "local", "root": str(root / "store")},
        "tracking": {"kind": "none"},
    }


FROM_SCREENS = {"type": "hybrid", "game": "homebrew", "num_games": 2, "keeps_decisions": True} | {
    "learner": {"network": "cnn", "steps": 24, "minibatch": 32, "epochs": 2},
    "subgoals": ["near the table: x <= 2 and y == 2"],
}


LEARNS = {
    "agents": {"player": {"policy": "player"}},
    "policies": {
        "player": {"base": "tiny", "tiny": {"max_position_embeddings": 1024}, "adapter": {"rank": 4, "alpha": 8}}
    },
    "warm_start": {"max_steps": 0},
    "evaluation": {"num_problems": 2, "problems_per_block": 2, "sampling": ["sample"]},
}
"""A language model that presses buttons, and learns."""
STAGES = [
    {"name": "much", "reward_threshold": -9.0, "llm_confidence": 0.95, "strategy": "llm_heavy", "min_episodes": 2},
    {"name": "little", "reward_threshold": 0.0, "llm_confidence": 0.88, "strategy": "rule_heavy"},
]
STAGED = {
    "type": "hybrid",
    "game": "twin",
    "num_games": 4,
    "learner": {"steps": 24, "minibatch": 32, "epochs": 2},
} | {
    "mode": {
        "type": "adaptive",
        "curriculum": {"stages": STAGES, "patience": 2, "window": 2, "largest_deviation": 9.0},
    }
}


@pytest.mark.parametrize(
    ("changes", "boundaries"),
    [
        ({}, BOUNDARIES),
        pytest.param({"method": FROM_SCREENS}, BOUNDARIES[:2], marks=pytest.mark.long),
        (LEARNS | {"method": STAGED}, LEARNING_BOUNDARIES),
    ],
    ids=["mlp", "cnn", "curriculum"],
)
def test_killed_at_every_stage_it_ends_in_the_same_player(
    changes: dict[str, Any], boundaries: tuple[str, ...], trainings: Trainings, whole_hybrid: Path, tmp_path: Path
) -> None:
    cut, whole = config(tmp_path) | changes, whole_hybrid
    if changes:
        whole = tmp_path / "whole"
        assert trainings.run(order(whole, "whole", config=config(whole) | changes)).code == 0, trainings.log()
    for part in boundaries:
        ended = trainings.run(order(tmp_path, "cut", config=cut, stop={"part": part, "moment": "computed"}))
        assert (ended.code, ended.stopped) == (-9, True), f"{part}: {trainings.log()}"
        await_no_workers("cut")
    assert trainings.run(order(tmp_path, "cut", config=cut)).code == 0, trainings.log()
    one, other = LocalArtifactStore(whole / "store"), LocalArtifactStore(tmp_path / "store")
    assert outcome(one, "whole") == outcome(other, "cut")
    steps = run_document(one, "whole")["steps"]
    assert len({step["checkpoint_digest"]["reflexes"] for step in steps}) == 3, "each step learns"
    if cut["method"] is STAGED:
        start = initial_checkpoints(one, read_run(one, "whole"))["player"].weights_digest
        assert len({start, *(step["checkpoint_digest"]["player"] for step in steps)}) == 4
        told = [[step["metrics"][f"curriculum/{name}"] for name in ("stage", "num_stalls")] for step in steps]
        assert (told[0], told[2][0]) == ([0.0, 0.0], 1.0), "a stage is passed in the second step"
        assert sum(stalls for _, stalls in told) > 0


def test_a_model_that_learns_is_trained_on_every_button_that_it_draws(trainings: Trainings, tmp_path: Path) -> None:
    values = config(tmp_path) | LEARNS
    learner = {**values["method"]["learner"], "steps": 6}
    values |= {"method": {**values["method"], "mode": "llm_only", "learner": learner}, "num_steps": 1}
    assert trainings.run(order(tmp_path, "learns", config=values)).code == 0, trainings.log()
    (step,) = run_document(LocalArtifactStore(tmp_path / "store"), "learns")["steps"]
    metrics = step["metrics"]
    assert metrics["signal/num_draws"] == metrics["train/player/num_rows"] == 24, "every button was drawn, and is a row"
    assert metrics["train/player/mismatch_max_abs"] < 1e-4, "log-probabilities are the sampler's"


def on_emulator(root: Path) -> dict[str, Any]:
    values = config(root)
    method = {"type": "hybrid", "game": "homebrew", "num_games": 2, "learner": {"steps": 12, "minibatch": 8}}
    evaluation = {"num_problems": 2, "problems_per_block": 2, "sampling": ["sample"]}
    return {**values, "method": method, "evaluation": evaluation, "num_steps": 1}


def pictures(store: LocalArtifactStore, run_id: str) -> dict[int, bytes]:
    """The picture of each evaluation, by step."""
    keys = (
        key
        for key in store.list(f"runs/{run_id}/steps/")
        if "/picture_episode-v" in key and key.endswith("/manifest.json")
    )
    found = {step_of(key): ArtifactRef(**read_as(key, store.read(key) or b"", StageManifest).output) for key in keys}
    return {step: store.get_bytes(ref) for step, ref in found.items()}


def test_pictures_of_episodes_are_kept_the_same_killed_or_not_until_the_run_is_removed(
    trainings: Trainings, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyboy")
    root, cut = tmp_path_factory.mktemp("emulated"), tmp_path_factory.mktemp("cut")
    assert trainings.run(order(root, "whole", config=on_emulator(root))).code == 0, trainings.log()
    stop = {"part": "/steps/000001/picture_episode-v*/sample/", "moment": "computed"}
    ended = trainings.run(order(cut, "cut", config=on_emulator(cut), stop=stop))
    assert (ended.code, ended.stopped) == (-9, True), trainings.log()
    await_no_workers("cut")
    assert trainings.run(order(cut, "cut", config=on_emulator(cut))).code == 0, trainings.log()
    one, other = LocalArtifactStore(root / "store"), LocalArtifactStore(cut / "store")
    assert outcome(one, "whole") == outcome(other, "cut")
    kept = pictures(other, "cut")
    assert pictures(one, "whole") == kept
    assert (set(kept), len(set(kept.values()))) == ({0, 1}, 2), "one of each evaluation, by another player each"
    sent = [f"runs/cut/outbox/{step:06d}-file-episodes_{step:06d}-sample.gif.published" for step in kept]
    assert [key for key in other.list("runs/cut/outbox/") if "-file-" in key and key.endswith(".published")] == sent
    collect_garbage(other, grace_seconds=0, dry_run=False)
    assert verify_document(other, "cut")["state"] == "whole"
    file = cut / "episode.gif"

    def view() -> str:
        to = ["--to", str(cut / "page.html"), "--gif", str(file), "--store", other.uri]
        return CliRunner().invoke(app, ["view", "cut", *to], catch_exceptions=False).output

    monkeypatch.setattr(episode_gif, "episode_picture", None)
    assert "an episode after 1 updates, kept by its evaluation" in view()
    assert file.read_bytes() == kept[1]
    monkeypatch.undo()
    monkeypatch.setattr(episode_gif, "read_committed", lambda *_: None)
    file.unlink()
    assert "an episode after 1 updates, played now" in view()
    assert file.read_bytes() == kept[1], "the same episode"
    remove(other, removal_of_run(other, "cut"), spare_young=False)
    assert not any(other.read(key) in kept.values() for key in other.list("payloads/"))


def test_its_history_is_made_anew_from_the_store(whole_hybrid: Path, tmp_path: Path) -> None:
    with open_stored_session(whole_hybrid) as session:
        assert record_step(session, 0, tmp_path) == 0, "no episode has ended"
        num_decisions = record_step(session, 2, tmp_path)
        assert num_decisions == 2 * 4 * 30
        assert record_step(session, 2, tmp_path) == 0, "done again"
        file = history_file("whole", tmp_path)
        with sqlite3.connect(file) as other:
            other.execute("UPDATE steps SET digest = 'of another lineage' WHERE step = 2")
        other.close()
        seal = file.with_suffix(".sha256")
        assert record_step(session, 2, tmp_path) == num_decisions, "it was changed"
        with sqlite3.connect(file) as other:
            other.execute("UPDATE steps SET digest = 'of another lineage' WHERE step = 2")
        other.close()
        seal.write_text(file_sha256(file))
        assert record_step(session, 2, tmp_path) == num_decisions, "it is of another lineage"
        shutil.rmtree(file.parent)
        assert record_step(session, 2, tmp_path) == num_decisions
    with DecisionHistory(file) as history:
        assert history.num_decisions() == num_decisions


def test_every_array_is_under_one_of_its_two_digests(whole_hybrid: Path) -> None:
    with open_stored_session(whole_hybrid) as session:
        checkpoint = reflexes(whole_hybrid)
        state = read_learner(session, checkpoint)
        assert store_learner(session, state, step=3) == checkpoint
        for name, values in state.items():
            raw = np.frombuffer(values.tobytes() or b"\0", np.uint8).copy()
            raw[0] ^= 1
            changed = {**state, name: raw.view(values.dtype).reshape(values.shape) if values.size else np.ones(1)}
            found = store_learner(session, changed, step=3)
            assert (found.weights_digest != checkpoint.weights_digest) == name.startswith("weights.")
            assert (found.optimizer_digest != checkpoint.optimizer_digest) != name.startswith("weights.")
        with pytest.raises(ArtifactCorrupt, match="digests"):
            read_learner(session, checkpoint.model_copy(update={"weights_digest": "0" * 64}))


def evaluate(root: Path, *arguments: str, command: str = "evaluate", subjects: tuple[str, ...] = ("whole",)) -> Any:
    uri = LocalArtifactStore(root / "store").uri
    done = CliRunner().invoke(app, [command, *subjects, "--store", uri, "--json", *arguments], catch_exceptions=False)
    return json.loads(done.stdout)


def test_its_own_games_are_played_once_whoever_asks(whole_hybrid: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = ("agent", "suite", "suite_digest", "sampling", "seed", "n", "num_successes", "mean_reward", "metrics")
    own = run_document(LocalArtifactStore(whole_hybrid / "store"), "whole")["evaluations"]
    wanted = {(each["step"], each["sampling"]): {name: each[name] for name in said} for each in own}
    more = evaluate(whole_hybrid, "--problems", "9", "--step", "2")
    other = evaluate(whole_hybrid, "--seed", "1", "--sampling", "sample")
    assert (more["n"], more["agent"], other["seed"]) == (9, "whole@2", 1)
    assert other["mean_reward"] != wanted[3, "sample"]["mean_reward"], "other starts"
    monkeypatch.setattr(HeldOutGames, "play", None)
    for step, sampling in wanted:
        read = evaluate(whole_hybrid, "--step", str(step), "--sampling", sampling)
        assert {name: read[name] for name in said} == wanted[step, sampling]
    assert evaluate(whole_hybrid, "--problems", "9", "--step", "2") == more


def test_a_policy_of_the_rules_plays_the_cartridge(whole_hybrid: Path) -> None:
    pytest.importorskip("pyboy")
    on_rules, on_cartridge = (
        evaluate(whole_hybrid, "--sampling", "sample", "--set", f"method.game={game}") for game in ("twin", "homebrew")
    )
    assert on_rules["suite_digest"] != on_cartridge["suite_digest"]
    assert on_rules["mean_reward"] == pytest.approx(on_cartridge["mean_reward"]), "the same rules, button by button"


def test_two_of_its_checkpoints_are_a_pair(whole_hybrid: Path) -> None:
    report = evaluate(
        whole_hybrid, "--problems", "12", "--sampling", "sample", command="compare", subjects=("whole@0", "whole")
    )
    (pair,) = report["comparisons"]
    assert (pair["base"], pair["other"], pair["num_problems"]) == ("whole@0", "whole@3", 12)
    before, after = (each["success_rate"] for each in report["reports"])
    assert pair["difference"] == pytest.approx(after - before)
    assert pair["interval"][0] < pair["difference"] < pair["interval"][1]


NO_EFFECT = {
    "--suite plan_path": "--suite 'plan_path': run whole plays the held-out games of its own configuration; leave it out",
    "--samples 2": "--samples 2: run whole plays each start once",
    "--step 4": "step 4 of run whole: it has finished 3 updates; use 0 to 3",
    "--set method.num_games=8": "--set 'method.num_games=8': changes no held-out game of run whole; set one of method.game",
    "--set generation.dtype=float32": "--set 'generation.dtype=float32': changes no held-out game of run whole",
    "--set evaluation.every=2": "--set 'evaluation.every=2': changes no held-out game of run whole",
    "--set method.game=crystal": "method.game.rom: required and missing",
}


@pytest.mark.parametrize("arguments", NO_EFFECT)
def test_what_changes_none_of_its_games_is_refused_by_name(whole_hybrid: Path, arguments: str) -> None:
    with pytest.raises(ConfigurationError, match=NO_EFFECT[arguments]):
        evaluate(whole_hybrid, *arguments.split())


def test_commands_for_language_models_refuse_it_by_name(whole_hybrid: Path, tmp_path: Path) -> None:
    store = LocalArtifactStore(whole_hybrid / "store")
    assert verify_document(store, "whole")["state"] == "whole"
    said = "a player of buttons, no language model"
    with pytest.raises(ConfigurationError, match=said):
        run_checkpoints(read_run(store, "whole"), None)
    with pytest.raises(ConfigurationError, match=said):
        export("whole@3", str(tmp_path), policy=None, is_merged=False, store_uri=store.uri, progress=lambda *_: None)


def open_stored_session(root: Path) -> Session:
    return Session(read_run(LocalArtifactStore(root / "store"), "whole"))


def reflexes(root: Path) -> CheckpointRef:
    store = LocalArtifactStore(root / "store")
    return checkpoints_before(store, read_run(store, "whole"), 3)["reflexes"]
