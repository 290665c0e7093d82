"""Which checkpoints a run keeps, and how long results stay that runs share."""

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from components.artifacts.base import ArtifactStore, StoredObject
from components.artifacts.local import LocalArtifactStore
from components.artifacts.records import with_digest
from components.artifacts.refs import CheckpointRef
from components.config import RetentionConfig
from components.evaluation.night_records import keep_night
from components.evaluation.nightly import SuiteNight
from components.evaluation.promotion import PromotionState, Trial
from components.identity import StageKey
from components.runs.gc import GarbageReport, collect_garbage
from components.runs.initial_checkpoints import read_initial_checkpoints, record_initial_checkpoints
from components.runs.lineages import freeze_config, read_lineages, start_lineage
from components.runs.retention import Evaluated, list_expired_updates
from components.runs.run import MixedStep, PolicyUpdate, Run, stage_key
from components.runs.session_records import begin_session
from components.runs.stage_protocol import run_stage
from components.schema import EvalReport
from components.stage_roles import Role, Roles
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.runs.test_gc import key, put_checkpoint
from tests.components.runs.whole_runs import whole_run
from tests.components.tracking.reports import evaluation
from tests.tasks.stored_runs import config_in
from troupe.cli import app

DAY = 86400.0


def manifests(num_steps: int, part: str = "a", lineage: int = 0) -> list[str]:
    return [f"{key('update_policy', step, part=part, lineage=lineage).path}/manifest.json" for step in range(num_steps)]


def list_kept(
    retention: RetentionConfig, evaluations: tuple[Evaluated, ...] = (), restarts: tuple[int, ...] = ()
) -> list[int]:
    """The numbers of updates, of ten, whose checkpoints stay."""
    keys = manifests(10)
    expired = list_expired_updates(
        keys, retention=lambda run: retention, evaluations={"r1": evaluations}, restarts={"r1": restarts}
    )
    return [step + 1 for step, each in enumerate(keys) if each not in expired]


def of(step: int, rate: float | None = None, what: str = "greedy") -> Evaluated:
    return Evaluated(step=step, what=(what,), success_rate=rate)


@pytest.mark.parametrize(
    ("retention", "evaluations", "restarts", "stay"),
    [
        (RetentionConfig(newest=1), (), (), [9, 10]),
        (RetentionConfig(newest=3), (), (), [8, 9, 10]),
        (RetentionConfig(newest=2, every=4), (), (), [4, 8, 9, 10]),
        (RetentionConfig(newest=2), (of(5, 0.1), of(0, 0.9)), (), [5, 9, 10]),
        (RetentionConfig(newest=2), (), (3,), [3, 4, 9, 10]),
        (RetentionConfig(newest=2, evaluated="best"), (of(3, 0.2), of(5, 0.9), of(7, 0.3)), (), [5, 9, 10]),
        (RetentionConfig(newest=2, evaluated="best"), (of(3, 0.4), of(5, 0.4)), (), [3, 5, 9, 10]),
        (
            RetentionConfig(newest=2, evaluated="best"),
            (of(3, 0.2), of(5, 0.9), of(7, 0.3, "sample")),
            (),
            [5, 7, 9, 10],
        ),
        (RetentionConfig(newest=2, evaluated="best"), (of(3), of(5, 0.9)), (), [3, 5, 9, 10]),
    ],
)
def test_a_run_keeps_the_newest_every_nth_the_evaluated_and_where_restarts_begin(
    retention: RetentionConfig, evaluations: tuple[Evaluated, ...], restarts: tuple[int, ...], stay: list[int]
) -> None:
    assert list_kept(retention, evaluations, restarts) == stay


def test_what_expires_is_told_by_the_roles_of_stages_and_not_by_their_names() -> None:
    learned = [each.replace("update_policy", "learn") for each in manifests(5)]
    other = [each.replace("update_policy", "look") for each in manifests(5)]

    def find_expired(*roles: Role) -> frozenset[str]:
        return list_expired_updates(
            [*learned, *other, *(f"{each}.txt" for each in learned)],
            retention=lambda run: RetentionConfig(newest=2),
            evaluations={},
            restarts={},
            roles=lambda run: Roles(stages=roles),
        )

    assert find_expired(Role(name="learn", expires_with="checkpoints"), Role(name="look")) == {*learned[:3]}
    assert find_expired(Role(name="learn", expires_with="rollouts")) == find_expired() == frozenset()


def test_retention_counts_policies_and_lineages_apart() -> None:
    ahead, behind, restarted = manifests(6), manifests(4, "b"), manifests(4, lineage=1)[1:]
    expired = list_expired_updates(
        [*ahead, *behind, *restarted],
        retention=lambda run: RetentionConfig(newest=1),
        evaluations={},
        restarts={"r1": [1]},
    )
    # The restart from step 1 needs steps 0 and 1; of each series the two newest are kept.
    assert expired == {ahead[2], ahead[3]}


def test_what_a_kept_step_needs_stays_and_a_mix_keeps_nothing_by_itself(tmp_path: Path) -> None:
    """Two are kept of eight: before step 4 stands the reference of the newest, and before step 2 a past self in the pool."""
    store = LocalArtifactStore(tmp_path / "store")
    made = []
    for step in range(8):
        payload = store.put_bytes(b"%d" % step, kind="PopulationState")
        pool = MixedStep(credited=[], state=payload, learning=[], metrics={}, needed_steps=(2,) if step > 1 else ())
        run_stage(store, key("mix_returns", step), partial(lambda it: it, pool), MixedStep)
        checkpoint = put_checkpoint(store, tmp_path / "c", key("any", step))
        update = PolicyUpdate(checkpoint=checkpoint, metrics={}, needed_steps=(4,) if step > 3 else ())
        run_stage(store, key("update_policy", step, part="a"), partial(lambda it: it, update), PolicyUpdate)
        run_stage(store, key("coordinate_weights", step), partial(dict, a=update), dict[str, PolicyUpdate])
        store.delete(f"{key('any', step).path}/manifest.json")
        made.append(checkpoint.folder)
    assert collect(store, keep_checkpoints=2).checkpoints == {"r1": (1, 3, 5, 6)}
    there = {at + 1 for at, folder in enumerate(made) if [*store.list(folder.key)]}
    assert there == {2, 4, 7, 8}


@pytest.fixture
def store(tmp_path: Path) -> LocalArtifactStore:
    return LocalArtifactStore(tmp_path / "store")


def collect(store: ArtifactStore, **more: float) -> GarbageReport:
    return collect_garbage(store, grace_seconds=0, dry_run=False, **more)  # type: ignore[arg-type]


def commit_evaluation(store: ArtifactStore, at: StageKey, success_rate: float) -> None:
    report = replace(evaluation(at.step), success_rate=success_rate)
    run_stage(store, at, lambda: report, EvalReport)


def test_each_run_keeps_what_its_newest_session_asks_for(store: LocalArtifactStore, tmp_path: Path) -> None:
    def run(run_id: str, *overrides: str) -> Run:
        return Run(run_id=run_id, config=config_in(tmp_path / "store", *overrides))

    runs = [
        run("plain"),
        run("few", "retention={newest: 2, every: 3}"),
        run("best", "retention={newest: 2, evaluated: best}"),
        run("more", "retention={newest: 2}"),
    ]
    for each in runs:
        freeze_config(store, each.run_id, each.config, PIPELINE)
        for step in range(8):
            put_checkpoint(store, tmp_path / "c", key("update_policy", step, run_id=each.run_id))
        for step, rate in ((1, 0.5), (4, 0.75), (5, 0.25)):
            commit_evaluation(store, key("evaluate_policy", step, run_id=each.run_id), rate)
    begin_session(store, runs[3], PIPELINE)
    begin_session(store, run("more", "retention={newest: 6}"), PIPELINE)
    assert collect_garbage(store, grace_seconds=0, dry_run=True, keep_checkpoints=8).checkpoints == {}
    report = collect(store)
    assert report.checkpoints == {"plain": (2, 3), "few": (2,), "best": (1, 2, 3, 5, 6), "more": (2,)}


def test_a_newest_session_that_cannot_be_read_leaves_the_run_alone(store: LocalArtifactStore, tmp_path: Path) -> None:
    run = Run(run_id="r1", config=config_in(tmp_path / "store"))
    for _ in range(2):
        begin_session(store, run, PIPELINE)
    for step in range(9):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))
    (tmp_path / "store/runs/r1/sessions/0001/start.json").write_text("{")
    assert collect_garbage(store, grace_seconds=0, dry_run=True).checkpoints == {"r1": (1, 2, 3, 4)}
    (tmp_path / "store/runs/r1/sessions/0002/start.json").write_text("{")
    report = collect(store)
    assert (list(report.damaged), report.checkpoints) == (["r1"], {})


class AgedStore(LocalArtifactStore):
    """A store in which everything is forty days old."""

    def scan(self, prefix: str):  # type: ignore[no-untyped-def]
        return (
            StoredObject(key=each.key, num_bytes=each.num_bytes, age_seconds=40 * DAY) for each in super().scan(prefix)
        )


def list_shared(store: ArtifactStore) -> list[str]:
    return [key for key in store.list("runs/_shared/") if key.endswith("/manifest.json")]


def test_a_warm_start_stays_while_a_run_begins_with_it_and_a_month_longer(tmp_path: Path) -> None:
    store = AgedStore(tmp_path / "store")
    runs = [whole_run(tmp_path / "store", run_id, overrides=(f"seed={n}",)) for n, run_id in enumerate("abc")]
    again = runs[0].config.model_copy(update={"seed": 7})
    start_lineage(store, "a", from_step=1, from_stage="update_policy", repeats=("update_policy",), config=again)
    restarted = Run(run_id="a", config=again, lineages=read_lineages(store, "a"))
    run_stage(store, stage_key(PIPELINE.first, restarted), dict, dict[str, CheckpointRef])
    record_initial_checkpoints(store, restarted, PIPELINE)
    assert len(list_shared(store)) == 4
    assert collect(store).num_shared == 0
    for run_id in ("a", "b"):
        for each in [*store.list(f"runs/{run_id}/")]:
            store.delete(each)
    assert collect(store, shared_seconds=41 * DAY).num_shared == 0
    told = collect_garbage(store, grace_seconds=0, dry_run=True)
    report = collect(store)
    assert told == report
    assert report.num_shared == 3
    assert read_initial_checkpoints(store, runs[2]) is not None
    assert [*store.list("runs/_shared/")] == [*store.list(list_shared(store)[0].removesuffix("manifest.json"))], (
        "no crumbs"
    )


def test_the_warm_starts_of_a_run_that_recorded_none_stay(tmp_path: Path) -> None:
    def without_roles(path: Path) -> None:
        text = path.read_text().replace(f'"warm_start": {PIPELINE.first.version}', '"warm_start": 1')
        aside = ("record_sha256", "roles")
        path.write_bytes(with_digest({name: it for name, it in json.loads(text).items() if name not in aside}))

    store = AgedStore(tmp_path / "store")
    run = whole_run(tmp_path / "store", "r", overrides=("seed=1",))
    old = stage_key(replace(PIPELINE.first, version=1), run)
    run_stage(store, old, lambda: 1, int)
    assert collect_garbage(store, grace_seconds=0, dry_run=True).num_shared == 1
    without_roles(tmp_path / "store/runs/r/sessions/0001/start.json")
    assert collect_garbage(store, grace_seconds=0, dry_run=True).num_shared == 0


def test_champion_and_challengers_of_a_nightly_suite_keep_their_checkpoints_until_others_are(tmp_path: Path) -> None:
    store = LocalArtifactStore(tmp_path / "store")
    for step in range(9):
        put_checkpoint(store, tmp_path / "c", key("update_policy", step))

    def night(date: str, champion: str | None, suite: str = "boards", challengers: tuple[str, ...] = ()) -> None:
        trials = tuple(Trial(challenger=each) for each in challengers)
        after = None if champion is None else PromotionState(champion=champion, trials=trials)
        keep_night(store, SuiteNight(name=suite, night=date, reports=(), changes=(), after=after, failures={}))

    night("2026-11-20", "r1@2")
    night("2026-11-21", "r1@4")
    night("2026-11-22", None)
    night("2026-11-20", "r1@6", suite="paths")
    (tmp_path / "store/nights/boards/2026-11-23-0001.json").write_text("{")
    report = collect_garbage(store, keep_checkpoints=2, grace_seconds=0, dry_run=True)
    assert report.checkpoints == {"r1": (1, 2, 3, 5, 7)}
    night("2026-11-24", "r1@1", challengers=("r1@3", "other@2"))
    assert collect(store, keep_checkpoints=2).checkpoints == {"r1": (2, 4, 5, 7)}


def test_the_command_keeps_what_the_run_says_unless_it_is_told_a_number(tmp_path: Path) -> None:
    root = tmp_path / "store"
    whole_run(root, "r", overrides=("retention={newest: 2}",))

    def run_command(*options: str) -> dict[str, Any]:
        command = ["gc", "--store", root.as_uri(), "--dry-run", "--json", *options]
        return dict(json.loads(CliRunner().invoke(app, command, catch_exceptions=False).stdout))

    assert run_command("--grace-hours", "0")["checkpoints"] == {"r": [1, 2]}
    assert run_command("--grace-hours", "0", "--keep", "3")["checkpoints"] == {"r": [1]}
    assert run_command()["checkpoints"] == {}, "all is young"
    assert run_command("--grace-hours", "0", "--shared-days", "0")["num_shared"] == 0
    shutil.rmtree(root / "runs/r")
    assert run_command("--grace-hours", "0")["num_shared"] == 0
    assert run_command("--grace-hours", "0", "--shared-days", "0")["num_shared"] == 1
