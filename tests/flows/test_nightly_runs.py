"""Nights of populations: each member's newest weights among the others as they were, compared in pairs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from components.errors import ArtifactMissing
from components.evaluation.night_records import keep_night
from components.evaluation.nightly import SuiteNight
from components.evaluation.subjects import RunSubject
from components.methods.open_subjects import RunFinder
from components.runs.run import Run
from components.schema import EvalReport
from flows import nightly_runs
from flows.presets import preset_config
from tests.components.evaluation.test_nightly import report

ROLES = tuple(f"player_{number}" for number in range(4))


class Population:
    """Nights of one population whose members' returns are given, in a real store."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kept = StoreConfig(kind="local", root=str(root / "store"))
        self.store = LocalArtifactStore(root / "store")
        config = preset_config("population-tiny")
        untrained = config.policies["fourth"].model_copy(update={"trained": False})
        policies = {**config.policies, "fourth": untrained}
        self.run = Run(run_id="p", config=config.model_copy(update={"policies": policies}))
        self.step: int | None = 1
        self.earns: dict[str, tuple[float, ...]] | None = {}
        """The returns of the first member by subject; else 0."""
        self.played: list[str] = []
        self.gone = ""
        self.made = "w"
        """How the digests of the run's weights begin, which a restart changes."""
        self.found: set[tuple[int | None, str | None]] = set()
        """The steps that were played, with the weights that were looked for."""
        monkeypatch.setattr(nightly_runs, "evaluate_subject", self._evaluated)
        monkeypatch.setattr(nightly_runs, "read_newest_step", lambda *_: self.step)
        monkeypatch.setattr(nightly_runs, "read_weights", lambda _, run, step: f"{self.made}{step}")
        monkeypatch.setattr(
            nightly_runs, "find_exact_run", lambda _, weights, each: self.found.add((each.step, weights))
        )

    def night(self, day: int) -> SuiteNight:
        self.played, self.found = [], set()
        (night,) = nightly_runs.run_nights(self.store, self.kept, f"2026-11-0{day}", [self.run])
        keep_night(self.store, night)
        return night

    def _evaluated(self, subject: str, suite: None, *, sampling: str, find_run: RunFinder, **_: Any) -> EvalReport:
        self.played.append(subject)
        for step in {int(each.rpartition("@")[2]) for each in subject.split(",")}:
            find_run(RunSubject("p", step))
        assert (suite, sampling) == (None, "sample")
        if subject == self.gone:
            raise ArtifactMissing("gone")
        found = report(subject, 100, step=self.step)
        if self.earns is None:
            return found
        first = self.earns.get(subject, (0.0,) * found.n)
        return replace(found, payoffs_P={role: first if role == ROLES[0] else (0.0,) * found.n for role in ROLES})


@pytest.fixture
def population(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Population:
    return Population(tmp_path, monkeypatch)


def test_each_learning_member_is_compared_among_the_others_as_they_were(population: Population) -> None:
    first = population.night(1)
    assert (population.played, first.returns, first.num_compared) == (["p@1"], (), 0)
    population.step = 2
    mixed = [",".join(f"{role}=p@{2 if role == member else 1}" for role in ROLES) for member in ROLES[:3]]
    population.earns = {mixed[0]: (-1.0, 0.0) * 100}
    second = population.night(2)
    assert population.played == ["p@2", *mixed]
    assert [each.change.agent for each in second.returns] == list(ROLES[:3])
    (lost,) = second.losses
    assert (lost.change.agent, lost.change.difference, lost.base, lost.other) == ("player_0", -0.5, "p@1", "p@2")
    assert (second.weights, second.num_compared, second.changes) == ({"p@2": "w2"}, 1, ())
    population.gone = mixed[1]
    assert population.night(3).returns == (), "the earlier checkpoint is gone"


def test_a_restart_changes_weights_and_no_night_takes_those_of_before_for_them(population: Population) -> None:
    population.step = 2
    population.night(1)
    population.made = "other"
    assert population.night(2).returns == (), "one checkpoint was not trained from the other"
    assert (population.played, population.found) == (["p@2"], {(2, "other2")})
    population.step = 3
    assert len(population.night(3).returns) == 3
    assert population.found == {(3, "other3"), (2, "other2")}


def test_the_night_before_a_restart_is_compared_by_the_weights_that_it_played(population: Population) -> None:
    population.step = 2
    population.night(1)
    population.made, population.step = "other", 3
    assert len(population.night(2).returns) == 3
    assert population.found == {(3, "other3"), (2, "w2")}


def test_a_game_that_pays_nobody_is_compared_by_success_and_one_that_fails_ends_no_night(
    population: Population,
) -> None:
    population.earns = None
    population.night(1)
    population.step = 2
    second = population.night(2)
    assert population.played == ["p@2"]
    assert [(each.base, each.other) for each in second.changes] == [("p@1", "p@2")]
    population.gone = "p@2"
    assert population.night(3).failures == {"p@2": "ArtifactMissing: gone"}
    population.step = None
    assert nightly_runs.run_nights(population.store, population.kept, "2026-11-04", [population.run]) == []
