"""Nights over a store: a worse checkpoint is told first, a better one is promoted, and nothing is played twice."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from components.errors import ArtifactMissing, NightFailed
from components.evaluation.night_records import keep_night, read_nights
from components.evaluation.nightly import NightlySuite, SuiteNight
from components.evaluation.promotion import Contestant, PromotionConfig
from components.evaluation.suites import Suite
from components.schema import EvalReport
from flows import nightly_evaluation as nightly
from flows.presets import preset_config
from tests.components.evaluation.test_nightly import report

pytestmark = pytest.mark.usefixtures("prefect")
SUITE = Suite(environment=preset_config("tiny").environment, num_problems=200)
SUITES = [NightlySuite(name="boards", suite=SUITE, subjects=("random",))]
PROMOTION = PromotionConfig(min_problems=200)


class Nights:
    """Nights whose subjects' success is given, in a real store."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = StoreConfig(kind="local", root=str(root / "store"))
        self.pages = root / "pages"
        self.solved: dict[str, int] = {}
        self.newest: list[str] = []
        self.weights: dict[str, str] = {}
        """By name, where they differ from it."""
        self.gone: set[str] = set()
        self.marked: list[tuple[str, int, str | None]] = []
        self.played: list[tuple[str, int]] = []
        monkeypatch.setattr(nightly, "evaluate_subject", self._evaluated)
        monkeypatch.setattr(nightly, "newest_checkpoints", lambda *_: map(self._contestant, self.newest))
        monkeypatch.setattr(nightly, "find_contestant", lambda _, name: Contestant(name=name))
        monkeypatch.setattr(nightly, "is_there", lambda _, each: each.weights not in self.gone)
        monkeypatch.setattr(nightly, "find_exact_run", lambda _, weights, subject: weights)
        monkeypatch.setattr(nightly, "tracking_url", lambda _: "http://mlflow")
        monkeypatch.setattr(nightly, "name_champion", self._named)

    def run(self, day: int) -> dict[str, Any]:
        return nightly.nightly_evaluation(
            SUITES, night=date(2026, 11, day), promotion=PROMOTION, store=self.store, pages=str(self.pages)
        )

    def nights(self) -> list[SuiteNight]:
        return read_nights(LocalArtifactStore(Path(str(self.store.root))), "boards", before="2027")

    def _contestant(self, name: str) -> Contestant:
        return Contestant(name=name, weights=self.weights.get(name, name))

    def _named(self, run_id: str, step: int, *, weights: str | None) -> None:
        self.marked.append((run_id, step, weights))

    def _evaluated(self, subject: str, suite: Suite, *, seed: int, find_run: Any, **_: Any) -> EvalReport:
        self.played.append((subject, suite.seed))
        weights = find_run(subject) or subject
        if weights not in self.solved:
            raise ArtifactMissing(f"the files of {subject} are gone")
        return report(subject, self.solved[weights], seed=seed, suite_digest=f"of {suite.seed}")


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(tmp_path, monkeypatch)


def test_a_worse_checkpoint_fails_the_night_and_a_better_one_is_promoted(nights: Nights) -> None:
    nights.solved = {"a@1": 120, "a@2": 60, "a@3": 190, "random": 2}
    nights.newest = ["a@1"]
    assert nights.run(1)["promoted"] == {"boards": None}
    nights.newest = ["a@2"]
    with pytest.raises(NightFailed, match=r"boards: a@2 less a@1: -0\.300"):
        nights.run(2)
    assert (nights.pages / "2026-11-02.html").read_text().index("1 regression") > 0
    nights.newest = ["a@3"]
    assert nights.run(3)["promoted"] == {"boards": "a@3"}
    first, second, third = nights.nights()
    assert [each.after and each.after.champion for each in (first, second, third)] == ["a@1", "a@1", "a@3"]
    assert [each.outcome for each in second.decisions] == ["open"]
    assert {seed for _, seed in nights.played} == {
        0,
        *(SUITES[0].fresh_suite(f"2026-11-0{n}", PROMOTION).seed for n in (1, 2, 3)),
    }


def test_a_night_that_is_run_again_starts_from_the_night_before_it(nights: Nights) -> None:
    nights.solved, nights.newest = {"a@1": 120, "b@1": 190, "random": 2}, ["a@1"]
    nights.run(1)
    nights.newest = ["a@1", "b@1"]
    once, twice = nights.run(2), nights.run(2)
    assert once["promoted"] == twice["promoted"] == {"boards": "b@1"}
    assert once["records"] != twice["records"]
    assert [each.night for each in nights.nights()] == ["2026-11-01", "2026-11-02"]


def test_a_subject_that_cannot_be_played_ends_no_other_and_is_told(nights: Nights) -> None:
    nights.solved, nights.newest = {"a@1": 120, "random": 2}, ["gone@7", "a@1"]
    with pytest.raises(NightFailed, match=r"not played: boards, gone@7: ArtifactMissing: the files of gone@7"):
        nights.run(1)
    (found,) = nights.nights()
    assert [each.agent for each in found.reports] == ["a@1", "random"]
    nights.solved |= {"a@2": 121}
    nights.newest = ["a@2"]
    nights.run(2)
    found = nights.nights()[0]
    assert found.after is not None
    assert found.after.champion == "a@1"
    assert replace(found, failures={}).regressions == ()


def test_a_restart_changes_no_champion_and_the_alias_follows_its_weights(nights: Nights) -> None:
    nights.solved, nights.newest = {"good": 140, "ruined": 0, "random": 2}, ["r@1"]
    nights.weights = {"r@1": "good"}
    nights.run(1)
    nights.weights = {"r@1": "ruined"}
    with pytest.raises(NightFailed, match=r"boards: r@1 less r@1 of 2026-11-01: -0\.700"):
        nights.run(2)
    second = nights.nights()[-1]
    assert {each.agent: each.success_rate for each in second.reports} == {"r@1": 0.0, "r@1 (good)": 0.7, "random": 0.01}
    assert second.after is not None
    assert (second.after.champion_weights, second.after.trials[0].weights) == ("good", "ruined")
    assert nights.marked == [("r", 1, "good")] * 2
    nights.gone, nights.newest = {"good"}, ["s@4"]
    nights.solved |= {"s@4": 90}
    with pytest.raises(NightFailed, match="boards, r@1: the champion's weights good are gone"):
        nights.run(3)
    assert nights.marked[-1] == ("s", 4, "s@4")
    assert nights.run(4)["promoted"] == {"boards": None}


def test_a_run_that_trains_on_keeps_its_trial(nights: Nights) -> None:
    nights.solved = {f"b@{step}": 102 for step in range(9)} | {"a@1": 100, "random": 2}
    store = LocalArtifactStore(Path(str(nights.store.root)))
    for day, newest in enumerate(["a@1", "b@1", "b@2", "b@3"], 1):
        nights.newest = [newest]
        keep_night(store, nightly.suite_night(SUITES[0], f"2026-11-0{day}", store, nights.store, PROMOTION, []))
    trials = [[each.challenger for each in night.decisions] for night in nights.nights()]
    assert trials == [[], ["b@1"], ["b@1"], ["b@1"]]
