"""One look at a step's records answers for each of its stages once, and for nothing that it did not see."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from components.artifacts.local import LocalArtifactStore
from components.config import StoreConfig
from components.errors import StoreUnavailable
from components.identity import StageKey
from components.runs.run import Run
from components.runs.stage_protocol import manifest_key, run_stage
from components.runs.step_records import most_attempts, step_manifests, summarise_step
from components.runs.steps import finish_step
from components.schema import IterationReport
from components.session.session import Session
from components.session.step_snapshot import (
    StepSnapshot,
    list_own_stages,
    locally_computed_stages,
    prefetch_snapshot,
    read_attempts_so_far,
    snapshot_of,
)
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE

RUN = Run(run_id="r", config=preset_config("tiny"))


def key(step: int, stage: str = "compute_rewards", run_id: str = "r") -> StageKey:
    return StageKey(run_id=run_id, step=step, stage=stage, version=1, part="0", lineage=0, depends_on="00ff")


def test_a_look_says_once_of_each_stage_of_its_step_that_it_is_absent(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    store.create(manifest_key(key(3, "collect_rollouts")), b"{}")
    store.create(f"{key(3).path}/attempts/0001.json", b"{}")
    with StepSnapshot(store, RUN, 3, PIPELINE.roles).use_here():
        assert read_attempts_so_far(key(3)) == 1
        assert read_attempts_so_far(key(3)) is None, "a second attempt must look for itself"
        assert read_attempts_so_far(key(3, "collect_rollouts")) is None
        assert read_attempts_so_far(key(4)) is None
        assert read_attempts_so_far(key(3, run_id="other")) is None
        assert read_attempts_so_far(key(3, "update_policy")) == 0
    assert read_attempts_so_far(key(3, "publish_checkpoint")) is None


@pytest.mark.parametrize("found", [[], ["evaluate_policy"], ["collect_rollouts"]])
def test_a_session_knows_the_stages_of_a_step_that_it_began_and_computes_alone(
    tmp_path: Path, found: list[str]
) -> None:
    store = LocalArtifactStore(tmp_path)
    for stage in found:
        store.create(manifest_key(key(3, stage)), b"{}")
    for computes_all in (True, False):
        session = Session(RUN, computes_all=computes_all)
        assert locally_computed_stages(session, 3) is None, "nobody has looked"
        with StepSnapshot(store, RUN, 3, PIPELINE.roles).use_here():
            of_step = [(3, stage) for stage in ("update_policy", "compute_rewards", "picture_episode")]
            for step, stage in (*of_step, (2, "publish_checkpoint")):
                committed = run_stage(store, key(step, stage), lambda: 1, int).manifest
                session.manifests[manifest_key(key(step, stage))] = committed
            known, own = locally_computed_stages(session, 3), list_own_stages(session, 3)
        if computes_all and "collect_rollouts" not in found:
            assert [each.stage for each in known or []] == ["compute_rewards", "picture_episode", "update_policy"]
            assert [each.stage for each in own or []] == ["compute_rewards", "update_policy"]
        else:
            assert known is own is None


def test_attempts_are_the_same_from_the_stages_and_from_their_records(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path)
    with pytest.raises(ZeroDivisionError):
        run_stage(store, key(3), lambda: 1 // 0, int)
    for stage in ("compute_rewards", "collect_rollouts", "evaluate_policy"):
        run_stage(store, key(3, stage), lambda: 1, int)
    attempts = most_attempts(each for each in step_manifests(store, RUN, 3) if not PIPELINE.roles[each.stage].optional)
    assert attempts == {"compute_rewards": 2, "collect_rollouts": 1} == summarise_step(store, RUN, 3).attempts


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    place = {"store": StoreConfig(kind="local", root=str(tmp_path))}
    with Session(Run(run_id="r", config=RUN.config.model_copy(update=place))) as opened:
        yield opened


def test_a_look_taken_ahead_serves_its_step_once(session: Session) -> None:
    prefetch_snapshot(session, 3)
    assert session.prefetch is not None
    ahead = session.prefetch.result()
    run_stage(session.store, key(3), lambda: 1, int)
    assert snapshot_of(session, 3) is ahead
    assert ahead.is_blank
    assert not snapshot_of(session, 3).is_blank, "a second look asks"


def test_a_look_at_another_step_asks_for_that(session: Session) -> None:
    report = IterationReport(run_id="r", step=4, metrics={}, timings={}, checkpoint_digest={}, optimizer_digest={})
    finish_step(session.store, RUN, 4, {}, report, [])
    prefetch_snapshot(session, 3)
    assert snapshot_of(session, 4).finished == {}
    assert session.prefetch is None


def test_a_look_that_failed_ahead_is_taken_again(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [StoreUnavailable("away")]
    listed = type(session.store).list

    def away_once(store: LocalArtifactStore, prefix: str) -> Iterator[str]:
        if failures:
            raise failures.pop()
        return listed(store, prefix)

    monkeypatch.setattr(type(session.store), "list", away_once)
    prefetch_snapshot(session, 3)
    assert session.prefetch is not None
    assert isinstance(session.prefetch.exception(), StoreUnavailable)
    assert snapshot_of(session, 3).is_blank
