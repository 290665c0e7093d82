"""What the stages hand on: every argument, to the right place, at the right time."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components import progress
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.errors import ArtifactMissing
from components.progress import Progress
from components.runs.run import PolicyUpdate, Run, StepBatches, stage_key
from components.runs.stage_protocol import run_stage
from components.schema import PolicyVersion, RolloutShard
from components.session.checkpoint_cache import CheckpointCache
from components.session.engines import Engines
from components.session.publishing import Publishing
from components.session.scenario import Scenario
from components.session.session import Session
from components.session.toolbox import Toolbox
from components.session.trainers import Trainers, training_of
from components.tool_calls.journal import ToolJournal
from components.training.base import CheckpointManifest, Probe, UpdateJob, UpdateResult
from components.training.trainer import DeepSpeedTrainer
from flows.presets import preset_config
from tasks import collect_rollouts, evaluate_policy, publish_checkpoint, refresh_weights, update_policy
from tests.components.tracking.reports import evaluation, iteration
from tests.recorded_calls import RecordedCalls, fails

VERSIONS = {"team": PolicyVersion(policy="team", step=31, weights_digest="w-31")}
FOLDERS = {
    name: ArtifactRef(kind="folder", key=f"folders/{name}", sha256=name, num_bytes=1) for name in ("own", "base")
}
CHECKPOINT = CheckpointRef(
    policy="team", step=32, folder=FOLDERS["own"], weights_digest="w-32", optimizer_digest="o-32", base=FOLDERS["base"]
)
LOADED = PolicyVersion(policy="team", step=32, weights_digest="w-32")
SETTINGS = ("seed=17", "num_steps=19", "rollout.temperature=0.7", "policies.team.learning_rate=0.004")


@pytest.fixture
def calls() -> RecordedCalls:
    return RecordedCalls()


@pytest.fixture
def heard() -> Iterator[list[Progress]]:
    found: list[Progress] = []
    with progress.subscribe(found.append):
        yield found


@pytest.fixture
def opened(tmp_path: Path, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Session]]:
    """Opens a session whose engines, trainers, tools, checkpoints and publishing are stand-ins; its store is real."""
    made: list[Session] = []
    copies = calls.object(
        CheckpointCache,
        "copies",
        path=lambda checkpoint: Path("copies") / checkpoint.weights_digest,
        store=lambda folder, base: CHECKPOINT.model_copy(update={"weights_digest": "w-33", "base": base}),
        work_folder=lambda step: new_folder(tmp_path / f"work-{step}"),
    )

    def open_session(*overrides: str) -> Session:
        local = ("store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none")
        session = Session(Run(run_id="run", config=preset_config("tiny", [*local, *SETTINGS, *overrides])))
        session.toolbox = calls.object(Toolbox, "toolbox", tools="the tools")
        session.publishing = calls.object(Publishing, "publishing")
        made.append(session)
        return session

    monkeypatch.setattr(Session, "copies", copies)
    monkeypatch.setattr(Session, "router", calls.function(Session.router, "the router"))
    yield open_session
    for session in made:
        session.close_store()


def config() -> Any:
    return preset_config("tiny", ["store.kind=local", "store.root=unused", "tracking.kind=none"])


def new_folder(folder: Path) -> Path:
    folder.mkdir()
    (folder / "left over").mkdir()
    return folder


def stand_in(monkeypatch: pytest.MonkeyPatch, calls: RecordedCalls, module: Any, name: str, answer: Any) -> None:
    """Replace what `module` has imported under this name."""
    monkeypatch.setattr(module, name, calls.function(getattr(module, name), answer, name=name))


def scenario(calls: RecordedCalls, **answers: Any) -> Any:
    """A scenario whose parts are named after themselves."""
    methods = calls.object(Scenario, "scenario", **answers)
    return SimpleNamespace(
        family="the family",
        rubric="the rubric",
        training_rubric="the rubric of training",
        eval_plan=methods.eval_plan,
        shard_plan=methods.shard_plan,
        refilling=methods.refilling,
    )


def test_an_evaluation_plays_the_plan_publishes_it_and_files_it(
    opened: Callable[..., Session], calls: RecordedCalls, heard: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened("evaluation.num_problems=23")
    session.scenario = scenario(calls, eval_plan="the plan")
    report = evaluation(5)
    stand_in(monkeypatch, calls, evaluate_policy, "evaluate", report)
    stand_in(monkeypatch, calls, evaluate_policy, "index_evaluation", None)
    assert evaluate_policy.evaluate_policy.fn(session, 5, "greedy", VERSIONS) == report
    arguments = {"step": 5, "part": "greedy", "versions": VERSIONS}
    key = stage_key(evaluate_policy.evaluate_policy.stage, session.run, arguments)
    journal = ToolJournal(session.store, key.path)
    (_, played) = next(call for call in calls if call[0] == "evaluate")
    reporter = played.pop("progress")
    assert calls == [
        ("scenario.eval_plan", {"suite": "test", "step": 5, "sampling": "greedy", "num_problems": 23}),
        ("router", {"self": session, "versions": VERSIONS}),
        ("toolbox.tools", {"journal": journal}),
        (
            "evaluate",
            {
                "plan": "the plan",
                "family": "the family",
                "router": "the router",
                "rubric": "the rubric",
                "tools": "the tools",
            },
        ),
        ("publishing.post_evaluation", {"report": report}),
        ("index_evaluation", {"store": session.store, "key": key}),
    ]
    heard.clear()
    reporter(7, 9)
    assert heard == [Progress(stage="evaluate_policy", step=5, done=7, total=9)]
    done, sampled = [("greedy",), ()], [("sample",), ("greedy", "sample")]
    assert all(evaluate_policy.are_evaluated(session, 5, each, VERSIONS) for each in done)
    assert not any(evaluate_policy.are_evaluated(session, 5, each, VERSIONS) for each in sampled)
    assert not evaluate_policy.are_evaluated(session, 6, ["greedy"], VERSIONS)
    assert not evaluate_policy.are_evaluated(session, 5, ["greedy"], {"team": LOADED})


def test_policies_without_a_checkpoint_have_versions_too(calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, calls, evaluate_policy, "fixed_versions", {"judge": "fixed"})
    found: Any = evaluate_policy.named_versions(config(), {"team": CHECKPOINT})
    assert found == {"judge": "fixed", "team": LOADED}
    assert calls == [("fixed_versions", {"config": config()})]


def test_a_shard_is_played_by_its_plan_with_journals_and_refills_of_its_own(
    opened: Callable[..., Session], calls: RecordedCalls, heard: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    session.scenario = scenario(calls, shard_plan="the plan", refilling="the refills")
    shard = RolloutShard(step=5, shard=3, policy_versions=VERSIONS, episodes=())
    stand_in(monkeypatch, calls, collect_rollouts, "ensure_loaded", None)
    stand_in(monkeypatch, calls, collect_rollouts, "Journal", "the journal")
    stand_in(monkeypatch, calls, collect_rollouts, "collect_shard", shard)
    ref = collect_rollouts.collect_rollouts.fn(session, 5, 3, VERSIONS)
    arguments = {"step": 5, "part": 3, "versions": VERSIONS}
    key = stage_key(collect_rollouts.collect_rollouts.stage, session.run, arguments)
    (name, played) = calls.pop()
    reporter = played.pop("progress")
    assert (name, played) == (
        "collect_shard",
        {
            "plan": "the plan",
            "family": "the family",
            "router": "the router",
            "rubric": "the rubric of training",
            "tools": "the tools",
            "refilling": "the refills",
            "journal": "the journal",
        },
    )
    assert calls == [
        ("ensure_loaded", {"session": session, "versions": VERSIONS}),
        ("scenario.shard_plan", {"step": 5, "shard": 3}),
        ("router", {"self": session, "versions": VERSIONS}),
        ("toolbox.tools", {"journal": ToolJournal(session.store, key.path)}),
        ("scenario.refilling", {"step": 5, "shard": 3}),
        ("Journal", {"store": session.store, "prefix": key.path}),
    ]
    assert session.kept.num_bytes == ref.num_bytes, "the next stage of this process need not read it"
    assert session.kept.get(ref, RolloutShard) is shard
    heard.clear()
    reporter(7, 9)
    assert heard == [Progress(stage="collect_rollouts", step=5, done=7, total=9)]


def test_a_step_s_weights_are_loaded_policy_by_policy(
    opened: Callable[..., Session], calls: RecordedCalls, heard: list[Progress], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    other = CHECKPOINT.model_copy(update={"policy": "other", "weights_digest": "w-34"})
    differences = {"w-32": 0.25, "w-34": 0.5}
    stand_in(monkeypatch, calls, refresh_weights, "fixed_versions", {"judge": "fixed"})

    def load(*, session: Session, checkpoint: CheckpointRef) -> tuple[str, float]:
        return f"version {checkpoint.weights_digest}", differences[checkpoint.weights_digest]

    stand_in(monkeypatch, calls, refresh_weights, "load_checkpoint", load)
    found: Any = refresh_weights.refresh_weights.fn(session, 5, {"team": CHECKPOINT, "other": other})
    assert found == {"judge": "fixed", "team": "version w-32", "other": "version w-34"}
    assert calls == [
        ("fixed_versions", {"config": session.config}),
        ("load_checkpoint", {"session": session, "checkpoint": CHECKPOINT}),
        ("load_checkpoint", {"session": session, "checkpoint": other}),
    ]
    ended = [
        Progress(stage="refresh_weights", step=5, done=1, total=1, facts={"probe_difference": d}) for d in (0.25, 0.5)
    ]
    assert heard == [Progress(stage="refresh_weights", step=5, done=0, total=1), *ended]


def test_weights_that_are_gone_are_reported_with_the_remedy(
    opened: Callable[..., Session], calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    gone = CHECKPOINT.model_copy(update={"folder": FOLDERS["own"].model_copy(update={"key": "folders/" + "a" * 64})})
    key = stage_key(update_policy.update_policy.stage, session.run, {"step": 4, "part": "team"})
    run_stage(session.store, key, lambda: PolicyUpdate(checkpoint=gone, metrics={}), PolicyUpdate)
    missing = fails(ArtifactMissing(f"{gone.folder.key} is missing"))
    stand_in(monkeypatch, calls, refresh_weights, "load_checkpoint", missing)
    with pytest.raises(ArtifactMissing, match="resume run --from-stage update_policy --step 4"):
        refresh_weights.refresh_weights.fn(session, 5, {"team": gone})


def test_a_process_without_a_refresh_loads_what_its_engines_do_not_hold(
    opened: Callable[..., Session], calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    session: Any = opened()
    own, api = session.config.policies["team"], SimpleNamespace(api="one")
    policies = {"loaded": own, "judge": api, "team": own}
    stand_in(monkeypatch, calls, refresh_weights, "checkpoints_before", {"team": CHECKPOINT})
    stand_in(monkeypatch, calls, refresh_weights, "load_checkpoint", (LOADED, 0.5))
    held = {"loaded": VERSIONS["team"], "team": VERSIONS["team"]}
    session.engines = calls.object(Engines, "engines", of=lambda policy: SimpleNamespace(version=held[policy]))
    seen: Any = SimpleNamespace(
        config=SimpleNamespace(policies=policies), engines=session.engines, store="the store", run=session.run
    )
    versions = {"loaded": VERSIONS["team"], "judge": VERSIONS["team"], "team": LOADED}
    refresh_weights.ensure_loaded(seen, versions)
    assert calls == [
        ("engines.of", {"policy": "loaded"}),
        ("engines.of", {"policy": "team"}),
        ("checkpoints_before", {"store": "the store", "run": session.run, "step": 32}),
        ("load_checkpoint", {"session": seen, "checkpoint": CHECKPOINT}),
    ]
    with pytest.raises(AssertionError, match=r"step 33 of run left .*step=32.*, not .*step=33"):
        refresh_weights.ensure_loaded(seen, {"team": replace(LOADED, step=33)})


@pytest.mark.parametrize(("base", "adapter"), [(FOLDERS["base"], "adapter"), (None, None)])
def test_a_checkpoint_is_loaded_from_its_copy_and_proved_by_its_probe(
    base: ArtifactRef | None,
    adapter: str | None,
    opened: Callable[..., Session],
    calls: RecordedCalls,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session: Any = opened("generation.probe_tolerance=0.03")
    session.engines = calls.object(Engines, "engines", of="the engine")
    stand_in(monkeypatch, calls, refresh_weights, "read_manifest", MANIFEST)
    stand_in(monkeypatch, calls, refresh_weights, "refresh", 0.25)
    checkpoint, folder = CHECKPOINT.model_copy(update={"base": base}), Path("copies/w-32")
    assert refresh_weights.load_checkpoint(session, checkpoint) == (LOADED, 0.25)
    assert calls == [
        ("copies.path", {"checkpoint": checkpoint}),
        ("engines.of", {"policy": "team"}),
        ("read_manifest", {"folder": folder}),
        (
            "refresh",
            {
                "generator": "the engine",
                "folder": folder / "model",
                "version": LOADED,
                "adapter": adapter and folder / adapter,
                "probe": MANIFEST.probe,
                "tolerance": 0.03,
            },
        ),
    ]


MANIFEST = CheckpointManifest(
    policy="team",
    step=33,
    weights_digest="w-33",
    optimizer_digest="o-33",
    probe=Probe(prompt_tokens=(1, 2), completion_tokens=(3,), trainer_logprobs=(-0.5,)),
)


@pytest.mark.parametrize(("kl", "reference"), [(0.0, None), (0.125, Path("copies/w-0"))])
def test_an_update_is_told_all_it_depends_on_and_leaves_no_folder(
    kl: float,
    reference: Path | None,
    opened: Callable[..., Session],
    calls: RecordedCalls,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session = opened(f"loss.kl_coefficient={kl}")
    initial = {
        name: CHECKPOINT.model_copy(update={"weights_digest": f"w-{at}"}) for at, name in enumerate(("team", "b"))
    }
    stand_in(monkeypatch, calls, update_policy, "initial_checkpoints", initial)
    batch, work = session.store.put_bytes(b"the batch", kind="TrainBatch"), session_work(session)
    told: list[UpdateJob] = []

    def update(*, job: UpdateJob) -> UpdateResult:
        told.append(job)
        assert job.batch_file.read_bytes() == b"the batch"
        assert not job.output_folder.exists()
        return UpdateResult(manifest=MANIFEST, metrics={"loss": 0.375})

    trainer = calls.object(DeepSpeedTrainer, "trainer", update=update)
    session.trainers = calls.object(Trainers, "trainers", of=trainer)
    found = update_policy.update_policy.fn(session, 5, "worker", CHECKPOINT, batch)
    assert told == [
        UpdateJob(
            policy="team",
            step=5,
            seed=17,
            total_steps=19,
            checkpoint_folder=Path("copies/w-32"),
            weights_digest="w-32",
            optimizer_digest="o-32",
            reference_folder=reference,
            batch_file=work / "batch",
            output_folder=work / "checkpoint",
            temperature=0.7,
            training=training_of(session.config, "team"),
            loss=session.config.loss,
        )
    ]
    assert told[0].training.learning_rate == 0.004
    stored = CHECKPOINT.model_copy(update={"weights_digest": "w-33"})
    assert found == PolicyUpdate(checkpoint=stored, metrics={"loss": 0.375})
    referred: list[Any] = [
        ("initial_checkpoints", {"store": session.store, "run": session.run}),
        ("copies.path", {"checkpoint": initial["team"]}),
    ]
    assert calls == [
        ("copies.work_folder", {"step": 5}),
        ("copies.path", {"checkpoint": CHECKPOINT}),
        *(referred if kl else []),
        ("trainers.of", {"policy": "worker"}),
        ("trainer.update", {"job": told[0]}),
        ("copies.store", {"folder": work / "checkpoint", "base": FOLDERS["base"]}),
    ]
    assert not work.exists()


def test_an_update_that_fails_leaves_no_folder(opened: Callable[..., Session]) -> None:
    session = opened()
    batch, work = session.store.put_bytes(b"the batch", kind="TrainBatch"), session_work(session)
    update = update_policy.update_job(session, 5, CHECKPOINT, batch)
    update.__enter__().output_folder.mkdir()
    error = ValueError("diverged")
    assert not update.__exit__(ValueError, error, None)
    assert not work.exists()


def session_work(session: Session) -> Path:
    """Where the stand-in for the copies of `session` makes the folder of step 5."""
    return Path(session.config.store.root).parent / "work-5"


def test_a_step_s_report_is_queued_once_all_that_it_tells_of_is_written(
    opened: Callable[..., Session], calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = opened()
    after: list[Callable[[], object]] = []
    monkeypatch.setattr(type(session.store), "after_writes", lambda self, work: after.append(work))
    stand_in(monkeypatch, calls, publish_checkpoint, "iteration_report", iteration("run", 5))
    batches = StepBatches(batches={}, metrics={"a": 0.25})
    updates = {
        name: PolicyUpdate(checkpoint=CHECKPOINT.model_copy(update={"policy": name}), metrics={}) for name in "ab"
    }
    assert publish_checkpoint.publish_checkpoint.fn(session, 5, batches, updates) == iteration("run", 5)
    reported = {"session": session, "step": 5, "batches": batches, "updates": updates}
    assert calls == [("iteration_report", reported)], "nothing is queued before"
    (queue,) = after
    queue()
    checkpoints = {name: update.checkpoint for name, update in updates.items()}
    queued = {"report": iteration("run", 5), "checkpoints": checkpoints}
    assert calls[1:] == [("publishing.post_iteration", queued)]
