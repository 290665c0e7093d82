"""A hybrid run on the page: who acted when, patterns, visited tiles; and an episode as a GIF."""

import re
import shutil
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from benchmarks.scripted_advisers import CompetentAdviser
from components.artifacts.layout import file_sha256
from components.artifacts.local import LocalArtifactStore
from components.artifacts.payloads import put
from components.config import RunConfig, parse_config
from components.errors import ConfigurationError
from components.hybrid.agent import AgentRule
from components.hybrid.control import ControlRule
from components.hybrid.decision_history import DecisionHistory
from components.hybrid.evaluation_games import make_trained_agent
from components.hybrid.experience import HybridSettings, collect_experience, new_learner_state, update_learner
from components.hybrid.game_boy.episode_gif import MOST_BYTES, EpisodeFrame, episode_gif, play_frames, short_gif
from components.hybrid.llm_actor import Advice
from components.hybrid.masked_ppo import PPORule
from components.hybrid.visited_tiles import list_visited_maps
from components.methods.hybrid.decision_histories import history_file, record_step
from components.methods.hybrid.settings import hybrid_config, open_emulated_games
from components.methods.hybrid.shown_run import NO_PRESSES, NUM_PARTS, hybrid_document
from components.runs.lineages import freeze_config
from components.runs.run import CollectedStep, Run
from components.runs.stage_protocol import run_stage
from components.session.session import Session
from flows.presets import preset_values
from flows.steps import HYBRID_PIPELINE as PIPELINE
from tests.committed_runs import stage_key
from troupe.cli import app
from troupe.viewing.hybrid_page import hybrid_page

HOSTILE = "</td><script>document.title='owned'</script><img src=x onerror=a()>\x1b[31m{{ 7 * 7 }}"
SETTINGS = HybridSettings(
    num_games=3,
    max_steps=20,
    goal_badges=1,
    learner=PPORule(steps=30, minibatch=32, epochs=1),
    agent=AgentRule(control=ControlRule()),
    keeps_decisions=True,
)


class HostileAdviser(CompetentAdviser):
    """Plays well and gives a hostile reason."""

    def advise(self, questions: Any) -> list[Advice]:
        return [replace(each, reasoning=HOSTILE) for each in super().advise(questions)]


def config(root: Path, **hybrid: Any) -> RunConfig:
    values = preset_values()["hybrid-tiny"]
    model = {"base": "smollm2-135m", "prompt_format": "chat", "trained": False}
    return parse_config(
        {
            **values,
            "num_steps": 2,
            "agents": {"player": {"policy": "m"}},
            "policies": {"m": model},
            "method": {"type": "hybrid", "mode": "adaptive", "game": "twin", "num_games": 3, **hybrid},
            "store": {"kind": "local", "root": str(root)},
            "tracking": {"kind": "none"},
        }
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[LocalArtifactStore, Run, dict[str, Any]]:
    """A run of two steps whose games were really played, and the state after the first."""
    root = tmp_path_factory.mktemp("hybrid") / "store"
    store, run = LocalArtifactStore(root), Run(run_id="h", config=config(root))
    freeze_config(store, "h", run.config, PIPELINE)
    state = new_learner_state(SETTINGS, 0)
    for step in range(2):
        experience = collect_experience(SETTINGS, state, 0, step, llm_actor=HostileAdviser())
        result = CollectedStep(experience=put(store, experience), metrics=experience.metrics)
        run_stage(store, stage_key(run, step, "collect_experience"), lambda result=result: result, CollectedStep)
        state = update_learner(SETTINGS, state, experience, 0)[0]
    return store, run, state


def test_the_document_is_of_the_decisions_in_the_store(made: Any, tmp_path: Path) -> None:
    store, run, _ = made
    document = hybrid_document(store, run, home=tmp_path)
    decisions = document["decisions"]
    assert (document["step"], document["notes"]) == (1, [])
    assert decisions["num_decisions"] == 3 * 60, "3 games of 60 steps, in episodes of 20"
    assert sum(each["num_decisions"] for each in decisions["over_episode"]) == 180
    by_phase = [each for phase in decisions["phases"] for each in phase["over_history"]]
    led = sum(each["num_decisions"] * (each["llm_share"] or 0) for each in by_phase)
    also_led = sum(each["num_decisions"] * (each["llm_share"] or 0) for each in decisions["over_episode"])
    assert led == pytest.approx(also_led)
    assert 0 < led < 180
    assert decisions["strategies"] == [{"strategy": "adaptive", "first_part": 0, "last_part": NUM_PARTS - 1}]
    assert [len(each["decisions"]) for each in decisions["episodes"]] == [20] * 8


def test_the_stages_of_a_curriculum_stand_over_the_steps_that_reached_them(made: Any, tmp_path: Path) -> None:
    store, _, _ = made
    stages = [{"name": name, "reward_threshold": 1, "llm_confidence": 0.5} for name in ("first", HOSTILE)]
    staged = Run(run_id="h", config=config(tmp_path, mode={"type": "adaptive", "curriculum": {"stages": stages}}))
    document = hybrid_document(store, staged, home=tmp_path)
    document["course"]["steps"] = [
        {"step": step, "stage": stage, **dict.fromkeys(("success_rate", "starter_rate", "llm_share"), 0.5)}
        | {"llm_confidence": 0.25}
        for step, stage in ((0, 0.0), (1, 0.0))
    ]
    page = hybrid_page(document)
    assert "Stages of the curriculum: first (after steps 0 to 1), " in page
    assert "(not reached).</p>" in page
    assert "trust in it (now 25%)" in page
    assert "<script>" not in page


def test_the_file_and_the_store_tell_the_same(made: Any, tmp_path: Path) -> None:
    store, run, _ = made
    with Session(run) as session:
        record_step(session, 1, tmp_path)
    assert history_file("h", tmp_path).is_file()
    known = hybrid_document(store, run, home=tmp_path)
    shutil.rmtree(tmp_path / "decisions")
    assert hybrid_document(store, run, home=tmp_path) == known
    assert not (tmp_path / "decisions").exists(), "viewing writes nothing"


def test_a_damaged_file_is_never_shown(made: Any, tmp_path: Path) -> None:
    store, run, _ = made
    with Session(run) as session:
        record_step(session, 1, tmp_path)
        file = history_file("h", tmp_path)
        right, whole = hybrid_document(store, run, home=tmp_path)["decisions"], file.read_bytes()
        sealed = file.with_suffix(".sha256").read_text()
        DecisionHistory(tmp_path / "other.sqlite").close()
        damaged = {
            "empty": b"",
            "cut": whole[: len(whole) // 2],
            "short": whole[:50],
            "text": b"not a database at all" * 100,
            "other": (tmp_path / "other.sqlite").read_bytes(),
            **{
                f"flipped {at}": whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
                for at in range(30, len(whole), 2999)
            },
        }
        for kind, content in damaged.items():
            file.write_bytes(content)
            document = hybrid_document(store, run, home=tmp_path)
            assert document["decisions"] == right, kind
            assert "decisions are read from the store" in document["notes"][0]
            file.with_suffix(".sha256").write_text(file_sha256(file))  # as if it had been left so
            if not kind.startswith("flipped"):
                assert hybrid_document(store, run, home=tmp_path)["decisions"] == right, kind
            file.with_suffix(".sha256").write_text(sealed)
        assert record_step(session, 1, tmp_path) == right["num_decisions"], "made anew"
        assert hybrid_document(store, run, home=tmp_path)["notes"] == []


def test_tiles_are_those_of_the_games(made: Any, tmp_path: Path) -> None:
    state = new_learner_state(SETTINGS, 0)
    experience = collect_experience(SETTINGS, state, 0, 0, llm_actor=CompetentAdviser())
    maps = list_visited_maps(experience, is_homebrew=True)
    arrays = experience.after.to_arrays()
    assert sum(sum(each.num_games.values()) for each in maps) == arrays["games._tiles_N_M_Y_X"].sum()
    assert sum(sum(each.num_presses.values()) for each in maps) == len(experience.rollout.to_arrays()["actions_B"])
    town = next(each for each in maps if each.place == (24, 4))
    assert all(town.rows[y][x] in ".LHE" for x, y in town.num_games), "nobody stands in a wall"
    assert all(each.rows == () for each in list_visited_maps(experience, is_homebrew=False))


def test_a_policy_that_sees_screens_has_tiles_too_and_a_note_says_what_they_lack(tmp_path: Path) -> None:
    learner = PPORule(network="cnn", steps=4, minibatch=8, epochs=1)
    settings = replace(SETTINGS, num_games=2, learner=learner)
    changes = {"game": "homebrew", "learner": {"network": "cnn"}}
    run = Run(run_id="seen", config=config(tmp_path / "store", **changes))
    store = LocalArtifactStore(tmp_path / "store")
    freeze_config(store, "seen", run.config, PIPELINE)

    def open_games(settings: HybridSettings, seed: int) -> Any:
        return open_emulated_games(hybrid_config(run.config), settings, seed)

    state = new_learner_state(settings, 0, open_games=open_games)
    experience = collect_experience(settings, state, 0, 0, open_games=open_games, llm_actor=CompetentAdviser())
    result = CollectedStep(experience=put(store, experience), metrics=experience.metrics)
    run_stage(store, stage_key(run, 0, "collect_experience"), lambda: result, CollectedStep)
    document = hybrid_document(store, run, home=tmp_path)
    tiles = [tile for step in document["maps"] for each in step["maps"] for tile in each["tiles"]]
    assert sum(tile["num_games"] for tile in tiles) >= 2
    assert {tile["num_presses"] for tile in tiles} == {0}
    assert document["notes"].count(NO_PRESSES) == 1
    assert NO_PRESSES in hybrid_page(document)


def test_the_page_has_no_markup_of_a_model_and_loads_nothing(made: Any, tmp_path: Path) -> None:
    store, run, _ = made
    page = hybrid_page(hybrid_document(store, run, home=tmp_path))
    assert "&lt;/td&gt;&lt;script&gt;document.title" in page
    assert "\\x1b[31m{{ 7 * 7 }}" in page
    assert not re.search(r"<(script|img|link|iframe)|\x1b|(src|href)=[\"']?[a-z]+:", page)
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not re.search(r" style=", page), "no style but the page's own is allowed"


def test_a_run_without_decisions_says_so_and_shows_its_map(made: Any, tmp_path: Path) -> None:
    store, run, _ = made
    alone = Run(run_id="h", config=parse_config({**preset_values()["hybrid-tiny"], "method": "hybrid"}))
    document = hybrid_document(store, alone, home=tmp_path)
    assert document["decisions"] is None
    assert "method.keeps_decisions=true keeps them" in document["notes"][0]
    assert "the town" in hybrid_page(document)
    with pytest.raises(
        ConfigurationError, match="--step 7: run 'h' has no games of it; those of steps 0 to 1 are there"
    ):
        hybrid_document(store, run, step=7, home=tmp_path)


def test_the_command_writes_the_page_of_games(made: Any, tmp_path: Path) -> None:
    store, _, _ = made
    file = tmp_path / "page.html"
    ended = CliRunner().invoke(app, ["view", "h", "--store", store.uri, "--step", "0", "--to", str(file)])
    assert ended.exit_code == 0, ended.output
    assert f"{file.as_uri()}: games of step 0; open it in a browser" in ended.output
    assert "Who acted over the episode" in file.read_text()
    refused = CliRunner().invoke(app, ["view", "h", "--store", store.uri, "--problem", "p"])
    assert isinstance(refused.exception, ConfigurationError)


def test_an_episode_as_gif_shows_every_button(made: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pyboy")
    _, run, state = made
    settings = replace(SETTINGS, num_games=1, max_steps=6)
    agent = make_trained_agent(SETTINGS, state, 1, seed=1, is_greedy=False, llm_actor=CompetentAdviser())
    with open_emulated_games(hybrid_config(run.config), settings, 1, renders=True) as games:
        frames = list(play_frames(games, agent))
    assert [each.step for each in frames] == [1, 2, 3, 4, 5, 6]
    assert frames[-1].total == pytest.approx(sum(sum(each.terms.values()) for each in frames))
    gif = image.open(BytesIO(episode_gif(frames)))
    assert (gif.n_frames, gif.size) == (6, (520, 288))
    shown = np.asarray(gif.convert("RGB"), int)[:288:2, :320:2]
    assert np.abs(shown - frames[0].screen).max() <= 8, "the screen, but for the palette"
    bars = [_bar(frame) for frame in (replace(frames[0], confidence=each) for each in (0.25, 0.75))]
    assert bars[1] == pytest.approx(3 * bars[0], abs=4)


def test_a_long_episode_is_a_gif_within_limits_that_ends_as_it_ended(made: Any) -> None:
    image = pytest.importorskip("PIL.Image")
    noise = np.random.default_rng(0).integers(0, 256, (21, 144, 160, 3), np.uint8)
    frames = [
        EpisodeFrame(screen=noise[step], step=step, button="A", by_llm=False, confidence=step / 20, terms={}, total=0.0)
        for step in range(1, 21)
    ]
    whole, short = episode_gif(frames), short_gif(frames)
    assert len(short) <= MOST_BYTES < len(whole)
    assert 1 < image.open(BytesIO(short)).n_frames < 20
    assert short_gif(frames, most_bytes=len(whole)) == whole
    few = short_gif(frames, most_pictures=7, most_bytes=len(whole))
    assert few == episode_gif([frames[number - 1] for number in (2, 5, 8, 11, 14, 17, 20)])


def _bar(frame: EpisodeFrame) -> int:
    """The length of the bar of confidence between its two edges, in pixels."""
    from PIL import Image

    picture = np.asarray(Image.open(BytesIO(episode_gif([frame]))).convert("RGB"), int)
    row = picture[94, 320:]
    return int((row.max(axis=1) > 100).sum()) - 2
