"""Nights over a store: a worse checkpoint is told first, a better one is promoted, and nothing is played twice."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from components.errors import ArtifactMissing, NightFailed
from components.evaluation.night_records import read_nights
from components.evaluation.nightly import NightlySuite, PromotionConfig
from components.evaluation.suites import Suite
from components.schema import EvalReport
from flows import nightly_evaluation as nightly
from flows.presets import preset_config
from tests.components.evaluation.test_nightly import report

pytestmark = pytest.mark.usefixtures("prefect")
SUITE = Suite(environment=preset_config("tiny").environment, num_problems=200)
SUITES = [NightlySuite(name="boards", suite=SUITE, subjects=("random",))]
PROMOTION = PromotionConfig(max_challengers=5, min_problems=200)


class Nights:
    """Nights whose subjects' success is given, in a real store."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.store = StoreConfig(kind="local", root=str(root / "store"))
        self.pages = root / "pages"
        self.solved: dict[str, int] = {}
        self.newest: list[str] = []
        self.played: list[tuple[str, int]] = []
        monkeypatch.setattr(nightly, "evaluate_subject", self._evaluated)
        monkeypatch.setattr(nightly, "newest_checkpoints", lambda *_: iter(self.newest))

    def run(self, day: int) -> dict[str, Any]:
        return nightly.nightly_evaluation(
            SUITES, night=date(2026, 11, day), promotion=PROMOTION, store=self.store, pages=str(self.pages)
        )

    def _evaluated(self, subject: str, suite: Suite, *, seed: int, **_: Any) -> EvalReport:
        self.played.append((subject, suite.seed))
        if subject not in self.solved:
            raise ArtifactMissing(f"the files of {subject} are gone")
        return report(subject, self.solved[subject], seed=seed, suite_digest=f"of {suite.seed}")


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
    first, second, third = read_nights(LocalArtifactStore(Path(str(nights.store.root))), "boards", before="2027")
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
    found = read_nights(LocalArtifactStore(Path(str(nights.store.root))), "boards", before="2027")
    assert [each.night for each in found] == ["2026-11-01", "2026-11-02"]


def test_a_subject_that_cannot_be_played_ends_no_other_and_is_told(nights: Nights) -> None:
    nights.solved, nights.newest = {"a@1": 120, "random": 2}, ["gone@7", "a@1"]
    with pytest.raises(NightFailed, match=r"not played: boards, gone@7: ArtifactMissing: the files of gone@7"):
        nights.run(1)
    (found,) = read_nights(LocalArtifactStore(Path(str(nights.store.root))), "boards", before="2027")
    assert [each.agent for each in found.reports] == ["a@1", "random"]
    nights.solved |= {"a@2": 121}
    nights.newest = ["a@2"]
    nights.run(2)
    found = read_nights(LocalArtifactStore(Path(str(nights.store.root))), "boards", before="2026-11-02")[-1]
    assert found.after is not None
    assert found.after.champion == "a@1"
    assert replace(found, failures={}).regressions == ()
