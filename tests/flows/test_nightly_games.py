"""Nights of players of games: by their own evaluations, side by side where these are equal, and never left out silently."""

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig, parse_config
from components.config.hybrid import LEARNER_POLICY
from components.errors import NightFailed
from components.evaluation.night_records import keep_night, read_nights
from components.evaluation.nightly import SuiteNight
from components.methods import open_subjects
from components.methods.hybrid.evaluation import HeldOutGames
from components.methods.hybrid.play import make_initial_learner
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.session_records import begin_session, end_session
from components.session.session import Session
from flows import nightly_runs
from flows.nightly_evaluation import nightly_evaluation
from flows.nightly_runs import active_runs, list_unplayed_runs, read_newest_step, run_nights
from flows.presets import preset_values
from flows.shards import play_here
from flows.steps import HYBRID_PIPELINE as PIPELINE

TONIGHT = datetime.now(UTC).date().isoformat()


@pytest.fixture
def kept(tmp_path: Path) -> StoreConfig:
    return StoreConfig(kind="local", root=str(tmp_path / "store"))


@pytest.fixture
def store(kept: StoreConfig) -> LocalArtifactStore:
    return LocalArtifactStore(Path(str(kept.root)))


def active_run(
    store: LocalArtifactStore, kept: StoreConfig, run_id: str, *, goal_badges: int = 1, **hybrid: Any
) -> Run:
    """A run whose session has just begun."""
    values = preset_values()["hybrid-tiny"]
    config = parse_config(
        {
            **values,
            "environment": {**values["environment"], "options": {"goal_badges": goal_badges}},
            "method": {"type": "hybrid", "game": "twin", "num_games": 2, **hybrid},
            "store": kept.model_dump(mode="json"),
            "tracking": {"kind": "none"},
        }
    )
    freeze_config(store, run_id, config, PIPELINE)
    run = Run(run_id=run_id, config=config)
    begin_session(store, run, PIPELINE)
    return run


@pytest.fixture
def checkpoint(store: LocalArtifactStore, kept: StoreConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The checkpoint that all runs have come to."""
    run = active_run(store, kept, "one")
    with Session(run) as session:
        found = {LEARNER_POLICY: make_initial_learner(session, {})}
    monkeypatch.setattr(open_subjects, "checkpoints_before", lambda *_: found)
    monkeypatch.setattr(nightly_runs, "play_in_flow", play_here)
    monkeypatch.setattr("flows.nightly_runs.read_initial_checkpoints", lambda *_: found)


@pytest.mark.usefixtures("checkpoint")
def test_runs_of_one_evaluation_are_one_night(store: LocalArtifactStore, kept: StoreConfig, tmp_path: Path) -> None:
    active_run(store, kept, "other")
    active_run(store, kept, "farther", goal_badges=2)
    active_run(store, kept, "unplayable", game={"type": "crystal", "rom": str(tmp_path / "none.gbc")})
    nights = run_nights(store, kept, TONIGHT, list(active_runs(store, date.fromisoformat(TONIGHT), 7)))
    assert [[each.agent for each in night.reports] for night in nights] == [["farther@0"], ["one@0", "other@0"], []]
    first, second = nights[1].reports
    assert first.num_solved_P == second.num_solved_P, "equal players meet equal starts"
    assert (first.n, first.sampling, first.suite) == (6, "sample", "game_boy/homebrew")
    assert nights[1].name == f"game_boy-homebrew-{first.suite_digest}"
    assert "none.gbc" in nights[2].failures["unplayable@0"]
    assert list(active_runs(store, date(2099, 1, 1), 7)) == [], "nobody works on them any more"


@pytest.mark.usefixtures("checkpoint")
def test_a_run_that_ended_before_its_first_update_plays_nothing(
    store: LocalArtifactStore, kept: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    (running,) = active_runs(store, date.fromisoformat(TONIGHT), 7)
    assert read_newest_step(store, running) == 0
    monkeypatch.setattr("flows.nightly_runs.read_initial_checkpoints", lambda *_: None)
    assert read_newest_step(store, running) is None, "its warm start is not committed yet"
    monkeypatch.undo()
    failed = active_run(store, kept, "failed")
    end_session(store, "failed", begin_session(store, failed, PIPELINE), RuntimeError("no reward"))
    monkeypatch.setattr("flows.nightly_runs.read_initial_checkpoints", lambda *_: {})
    assert read_newest_step(store, failed) is None
    assert run_nights(store, kept, TONIGHT, [failed]) == []
    assert list(list_unplayed_runs(store, [failed], [])) == ["failed (no update is finished)"]


@pytest.mark.usefixtures("checkpoint")
def test_what_is_played_is_not_played_again_and_a_worse_checkpoint_is_told(
    store: LocalArtifactStore, kept: StoreConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def play_night(night: str) -> SuiteNight:
        (found,) = run_nights(store, kept, night, list(active_runs(store, date.fromisoformat(night), 10**4)))
        return found

    (played,) = play_night("2026-01-01").reports
    monkeypatch.setattr(HeldOutGames, "play", None)
    again = play_night("2026-01-01")
    assert again.reports == (played,)
    better = replace(played, agent="one@7", num_solved_P=(1,) * 6)
    keep_night(store, replace(again, reports=(better,)))
    assert [(each.base, each.other, each.difference) for each in play_night("2026-01-02").regressions] == [
        ("one@7", "one@0", sum(played.num_solved_P) / 6 - 1.0)
    ]


@pytest.mark.usefixtures("prefect", "checkpoint")
def test_the_nightly_flow_keeps_and_judges_them(store: LocalArtifactStore, kept: StoreConfig, tmp_path: Path) -> None:
    nightly_evaluation([], night=date.fromisoformat(TONIGHT), store=kept, pages=str(tmp_path))
    page = (tmp_path / f"{TONIGHT}.html").read_text()
    (name,) = {key.split("/")[1] for key in store.list("nights/")}
    assert name in page
    assert "one@0" in page
    assert [each.agent for each in read_nights(store, name, before="2099")[0].reports] == ["one@0"]
    active_run(store, kept, "unplayable", game={"type": "crystal", "rom": str(tmp_path / "none.gbc")})
    with pytest.raises(NightFailed, match=r"unplayable@0: RomMissing"):
        nightly_evaluation([], night=date.fromisoformat(TONIGHT), store=kept)
