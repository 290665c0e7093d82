"""What the stages hand on: every argument, to the right place, at the right time."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from components.artifacts.payload_cache import KeptPayloads
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.errors import ArtifactMissing
from components.evaluation.held_out import EvalPlan, EvalSetting
from components.evaluation.suite_play import SuitePlay
from components.evaluation.suites import Suite, suite_problems
from components.methods import base as evaluation
from components.reporting import progress
from components.reporting.progress import Progress, subscribe
from components.reporting.progress_share import report_share
from components.runs.run import PolicyUpdate, Run, StepBatches, stage_key
from components.runs.stage_protocol import run_stage
from components.schema import PolicyVersion, RolloutShard, TrainBatch
from components.session import checkpoint_loading
from components.session.checkpoint_cache import CheckpointCache
from components.session.engines import Engines
from components.session.publishing import Publishing
from components.session.scenario import Scenario, scenario_of
from components.session.session import Session
from components.session.toolbox import Toolbox
from components.session.trainers import Trainers, training_of
from components.tool_calls.journal import ToolJournal
from components.training import checkpoint
from components.training.base import CheckpointManifest, Probe, UpdateJob, UpdateResult
from components.training.trainer import DeepSpeedTrainer
from flows.presets import preset_config
from tasks import collect_rollouts, evaluate_policy, play_suite, publish_checkpoint, refresh_weights, update_policy
from tests.components.tracking.reports import iteration
from tests.recorded_calls import RecordedCalls, call, fails

VERSIONS = {"team": PolicyVersion(policy="team", step=31, weights_digest="w-31")}
FOLDERS = {
    name: ArtifactRef(kind="folder", key=f"folders/{name}", sha256=name, num_bytes=1) for name in ("own", "base")
}
CHECKPOINT = CheckpointRef(
    policy="team", step=32, folder=FOLDERS["own"], weights_digest="w-32", optimizer_digest="o-32", base=FOLDERS["base"]
)
PLAYERS = {"family": "the family", "router": "the router", "tools": "the tools"}
ANSWERS = evaluation.Evaluation()
LOADED = PolicyVersion(policy="team", step=32, weights_digest="w-32")
PROBE = Probe(prompt_tokens=(1, 2), completion_tokens=(3,), trainer_logprobs=(-0.5,))
MANIFEST = CheckpointManifest(policy="team", step=33, weights_digest="w-33", optimizer_digest="o-33", probe=PROBE)
SETTINGS = ("seed=17", "num_steps=19", "rollout.temperature=0.7", "policies.team.learning_rate=0.004")


class Wired:
    """Opens sessions whose trainers, tools, checkpoints and publishing are stand-ins; their stores are real."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = calls = RecordedCalls()
        self.heard: list[Progress] = []
        self.work = root / "work"
        self._local = ("store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none")
        self._monkeypatch = monkeypatch
        copies = calls.object(
            CheckpointCache,
            "copies",
            path=lambda checkpoint: Path("copies") / checkpoint.weights_digest,
            manifest=lambda checkpoint: MANIFEST.model_copy(update={"base_digest": "b-31"}),
            store=lambda folder, base: CHECKPOINT.model_copy(update={"weights_digest": "w-33", "base": base}),
            work_folder=self._made,
        )
        monkeypatch.setattr(Session, "copies", copies)
        monkeypatch.setattr(Session, "router", calls.function(Session.router, "the router"))

    def session(self, *overrides: str) -> Session:
        session = Session(Run(run_id="run", config=preset_config("tiny", [*self._local, *SETTINGS, *overrides])))
        session.toolbox = self.calls.object(Toolbox, "toolbox", tools="the tools")
        session.publishing = self.calls.object(Publishing, "publishing")
        plans = {"eval_plan": "an evaluation", "shard_plan": "a shard", "refilling": "the refills"}
        session.scenario = scenario = self.calls.object(Scenario, "scenario", **plans)
        scenario.family, scenario.rubric, scenario.training_rubric = "the family", "the rubric", "that of training"
        return session

    def replace(self, module: Any, name: str, answer: Any = None) -> None:
        self.calls.replace(self._monkeypatch, module, name, answer)

    def hears(self, reporter: Callable[[float, int], None]) -> Progress:
        """What `reporter` makes of 7 of 9."""
        self.heard.clear()
        reporter(7, 9)
        (found,) = self.heard
        return found

    def _made(self, step: int) -> Path:
        (self.work / "left over").mkdir(parents=True)
        return self.work


@pytest.fixture
def wired(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wired]:
    made = Wired(tmp_path, monkeypatch)
    with progress.subscribe(made.heard.append):
        yield made


def a_play(plan: EvalPlan) -> SuitePlay:
    """Every problem of a plan is solved in one turn."""
    ones = tuple((1,) for _ in plan.problems)
    return SuitePlay(
        problems_P=tuple(each.problem_id for each in plan.problems),
        solved_P_K=tuple((True,) for _ in ones),
        rewards_P_K=tuple((0.5,) for _ in ones),
        turns_P_K=ones,
        seconds=9.0,
    )


def test_a_block_is_played_by_the_loaded_engines_and_by_scripts(wired: Wired) -> None:
    session = wired.session()
    plan = scenario_of(session.config).eval_plan(a_suite(session, 3), sampling="greedy", seed=4)
    wired.replace(evaluation, "play_block", a_play(plan))
    wired.replace(play_suite, "ensure_loaded", None)
    players = {"plan_agent": {"weights": "w-31"}}
    assert play_suite.play_suite.fn(session, "greedy", plan, players, VERSIONS) == a_play(plan)
    key = stage_key(play_suite.play_suite.stage, session.run, {"part": "greedy", "plan": plan, "players": players})
    (reporter,) = [each.pop("progress") for name, each in wired.calls if name == "play_block"]
    assert wired.calls == [
        call("toolbox.tools", journal=ToolJournal(session.store, key.path)),
        call("ensure_loaded", session=session, versions=VERSIONS),
        call("router", self=session, versions=VERSIONS, seating=None),
        call("play_block", plan=plan, block=plan.problems, setting=EvalSetting(rubric="the rubric", **PLAYERS)),  # type: ignore[arg-type]
    ]
    assert wired.hears(reporter) == Progress(stage="play_suite", step=0, done=7, total=9)
    wired.calls.clear()
    wired.replace(play_suite, "play_scripted", a_play(plan))
    assert play_suite.play_suite.fn(session, "greedy", plan, {"script": "expert"}, {}) == a_play(plan)
    (reporter,) = [each.pop("progress") for name, each in wired.calls if name == "play_scripted"]
    script = call(
        "play_scripted", script="expert", plan=plan, rubric="the rubric", family="the family", tools="the tools"
    )
    assert wired.calls[-1] == script


def a_suite(session: Session, num_problems: int) -> Suite:
    return Suite(environment=session.config.environment, num_problems=num_problems, problems_per_block=2)


def test_who_plays_is_known_by_weights_and_questions_not_by_names(wired: Wired) -> None:
    session: Any = wired.session("agents.plan_agent.temperature=0.5")
    session.scenario = scenario_of(session.config)
    plan = session.scenario.eval_plan(a_suite(session, 3), sampling="sample", seed=4)
    players = ANSWERS.name_players(session, plan, VERSIONS, {})
    assert {role: (each["weights"], each["temperature"]) for role, each in players.items()} == {
        "tool_agent": ("w-31", None),
        "plan_agent": ("w-31", 0.5),
    }
    assert all("policy" not in each for each in players.values())
    other = {"team": replace(VERSIONS["team"], step=99)}
    assert ANSWERS.name_players(session, plan, other, {}) == players
    blocks = play_suite.block_plans(plan)
    assert [len(block.problems) for block in blocks] == [2, 1]
    longer = session.scenario.eval_plan(a_suite(session, 4), sampling="sample", seed=4)
    assert play_suite.block_plans(longer)[0] == blocks[0]
    wired.replace(play_suite, "ensure_loaded", None)
    wired.replace(evaluation, "play_block", lambda plan, block, setting, progress: a_play(plan))
    calls = play_suite.block_calls(session, plan, players, VERSIONS, {})
    for call_of_block in calls:
        assert not play_suite.is_played(call_of_block)
        play_suite.play_suite.fn(*call_of_block)
        assert play_suite.is_played(call_of_block)
    wired.calls.clear()
    run = session.run.model_copy(update={"run_id": "another"})
    again = play_suite.play_suite.fn(Session(run), "sample", blocks[0], players, other)
    assert (again, wired.calls) == (a_play(blocks[0]), []), "another run reads what was played"


def test_an_evaluation_joins_its_blocks_publishes_the_report_and_files_it(wired: Wired) -> None:
    session: Any = wired.session("evaluation.num_problems=3", "evaluation.problems_per_block=2")
    session.scenario = scenario_of(session.config)
    wired.replace(evaluation, "play_block", lambda plan, block, setting, progress: a_play(plan))
    wired.replace(evaluate_policy, "index_evaluation")
    wired.replace(play_suite, "ensure_loaded", None)
    team = {"team": CHECKPOINT}
    missing = evaluate_policy.missing_calls(session, 5, ["greedy"], team)
    assert [block for _, _, block, *_ in missing] == play_suite.block_plans(evaluate_policy.own_plan(session, "greedy"))
    play_suite.play_suite.fn(*missing[0])
    assert evaluate_policy.missing_calls(session, 5, ["greedy"], team) == missing[1:]
    report = evaluate_policy.evaluate_policy.fn(session, 5, "greedy", team)
    assert (report.agent, report.step, report.suite, report.n, report.seed) == ("run@5", 5, "plan_path/test", 3, 17)
    assert (report.num_solved_P, report.metrics["eval/greedy/seconds"]) == ((1, 1, 1), 18.0)
    plan = evaluate_policy.own_plan(session, "greedy")
    assert report.suite_digest == session.scenario.suite_digest(plan)
    assert [problem.problem_id for problem in plan.problems] == [
        problem.problem_id
        for problem in suite_problems("test", session.scenario.family, session.scenario.options, num_problems=3, seed=0)
    ]
    arguments = {"step": 5, "part": "greedy", "checkpoints": team}
    key = stage_key(evaluate_policy.evaluate_policy.stage, session.run, arguments)
    assert wired.calls[-2:] == [
        call("publishing.post_evaluation", report=report),
        call("index_evaluation", store=session.store, key=key),
    ]
    assert evaluate_policy.missing_calls(session, 5, ["greedy"], team) == []
    assert evaluate_policy.missing_calls(session, 6, ["greedy"], team) == [], "the same weights at another step"
    assert len(evaluate_policy.missing_calls(session, 5, ["greedy", "sample"], team)) == 2
    changed = CHECKPOINT.model_copy(update={"weights_digest": "w-33"})
    assert len(evaluate_policy.missing_calls(session, 5, ["greedy"], {"team": changed})) == 2


def test_a_shard_is_played_by_its_plan_with_journals_and_refills_of_its_own(wired: Wired) -> None:
    session = wired.session()
    shard = RolloutShard(step=5, shard=3, policy_versions=VERSIONS, episodes=())
    wired.replace(collect_rollouts, "ensure_loaded")
    wired.replace(collect_rollouts, "Journal", "the journal")
    wired.replace(collect_rollouts, "collect_shard", shard)
    ref = collect_rollouts.collect_rollouts.fn(session, 5, 3, VERSIONS)
    arguments = {"step": 5, "part": 3, "versions": VERSIONS, "seating": None}
    key = stage_key(collect_rollouts.collect_rollouts.stage, session.run, arguments)
    (name, played) = wired.calls.pop()
    reporter = played.pop("progress")
    journalled = {"refilling": "the refills", "journal": "the journal"}
    assert (name, played) == call("collect_shard", plan="a shard", rubric="that of training", **journalled, **PLAYERS)
    assert wired.calls == [
        call("scenario.check_data"),
        call("ensure_loaded", session=session, versions=VERSIONS),
        call("scenario.shard_plan", step=5, shard=3),
        call("router", self=session, versions=VERSIONS, seating=None, calls=key.path),
        call("toolbox.tools", journal=ToolJournal(session.store, key.path)),
        call("scenario.refilling", step=5, shard=3),
        call("Journal", store=session.store, prefix=key.path),
    ]
    assert session.kept.num_bytes == ref.num_bytes, "the next stage of this process need not read it"
    assert session.kept.get(ref, RolloutShard) is shard
    assert wired.hears(reporter) == Progress(stage="collect_rollouts", step=5, done=7, total=9)


def test_a_step_s_weights_are_loaded_policy_by_policy(wired: Wired) -> None:
    session = wired.session()
    other = CHECKPOINT.model_copy(update={"policy": "other", "weights_digest": "w-34"})
    differences = {"w-32": 0.25, "w-34": 0.5}
    wired.replace(refresh_weights, "list_fixed_versions", {"judge": "fixed"})

    def load(*, session: Session, checkpoint: CheckpointRef) -> tuple[str, float]:
        return f"version {checkpoint.weights_digest}", differences[checkpoint.weights_digest]

    wired.replace(refresh_weights, "load_checkpoint", load)
    found: Any = refresh_weights.refresh_weights.fn(session, 5, {"team": CHECKPOINT, "other": other})
    assert found == {"judge": "fixed", "team": "version w-32", "other": "version w-34"}
    assert wired.calls == [
        call("list_fixed_versions", config=session.config),
        call("load_checkpoint", session=session, checkpoint=CHECKPOINT),
        call("load_checkpoint", session=session, checkpoint=other),
    ]
    begun, ended = (Progress(stage="refresh_weights", step=5, done=done, total=1) for done in (0, 1))
    differing = [replace(ended, facts={"probe_difference": each}) for each in (0.25, 0.5)]
    assert wired.heard == [begun, *differing]


def test_weights_that_are_gone_are_reported_with_the_remedy(wired: Wired) -> None:
    session = wired.session()
    gone = CHECKPOINT.model_copy(update={"folder": FOLDERS["own"].model_copy(update={"key": "folders/" + "a" * 64})})
    key = stage_key(update_policy.update_policy.stage, session.run, {"step": 4, "part": "team"})
    run_stage(session.store, key, lambda: PolicyUpdate(checkpoint=gone, metrics={}), PolicyUpdate)
    wired.replace(refresh_weights, "load_checkpoint", fails(ArtifactMissing(f"{gone.folder.key} is missing")))
    with pytest.raises(ArtifactMissing, match=r"`troupe verify run .*` says what makes it again"):
        refresh_weights.refresh_weights.fn(session, 5, {"team": gone})


def test_a_process_without_a_refresh_loads_what_its_engines_do_not_hold(wired: Wired) -> None:
    session: Any = wired.session()
    own, api = session.config.policies["team"], SimpleNamespace(api="one")
    policies = {"loaded": own, "judge": api, "team": own}
    wired.replace(refresh_weights, "checkpoints_before", {"team": CHECKPOINT})
    wired.replace(refresh_weights, "load_checkpoint", (LOADED, 0.5))
    held = {"loaded": VERSIONS["team"], "team": VERSIONS["team"]}
    session.engines = wired.calls.object(Engines, "engines", of=lambda policy: SimpleNamespace(version=held[policy]))
    seen: Any = SimpleNamespace(
        config=SimpleNamespace(policies=policies), engines=session.engines, store="the store", run=session.run
    )
    versions = {"loaded": VERSIONS["team"], "judge": VERSIONS["team"], "team": LOADED}
    refresh_weights.ensure_loaded(seen, versions)
    assert wired.calls == [
        call("engines.of", policy="loaded"),
        call("engines.of", policy="team"),
        call("checkpoints_before", store="the store", run=session.run, step=32),
        call("load_checkpoint", session=seen, checkpoint=CHECKPOINT),
    ]
    with pytest.raises(AssertionError, match=r"step 33 of run left P.*step=32.*\), not P.*step=33"):
        refresh_weights.ensure_loaded(seen, {"team": replace(LOADED, step=33)})


@pytest.mark.parametrize(("base", "adapter"), [(FOLDERS["base"], "adapter"), (None, None)])
def test_a_checkpoint_is_loaded_from_its_copy_and_proved_by_its_probe(
    wired: Wired, base: ArtifactRef | None, adapter: str | None
) -> None:
    session: Any = wired.session("generation.probe_tolerance=0.03")
    session.engines = wired.calls.object(Engines, "engines", of="the engine")
    wired.replace(checkpoint, "read_manifest", MANIFEST)
    wired.replace(checkpoint_loading, "refresh", 0.25)
    stored, folder = CHECKPOINT.model_copy(update={"base": base}), Path("copies/w-32")
    assert checkpoint_loading.load_checkpoint(session, stored) == (LOADED, 0.25)
    assert wired.calls == [
        call("copies.path", checkpoint=stored),
        call("read_manifest", folder=folder),
        call("engines.of", policy="team"),
        call(
            "refresh",
            generator="the engine",
            folder=folder / "model",
            version=LOADED,
            adapter=adapter and folder / adapter,
            probe=PROBE,
            tolerance=0.03,
        ),
    ]


@pytest.mark.parametrize(
    ("loss", "referred"),
    [
        ("{}", None),
        ("{kl_coefficient: 0.125}", 0),
        ("{kl_coefficient: 0.125, reference_every: 6}", 0),
        ("{kl_coefficient: 0.125, reference_every: 5}", 5),
        ("{kl_coefficient: 0.125, reference_every: 2}", 4),
    ],
)
def test_an_update_is_told_all_it_depends_on_and_leaves_no_folder(
    wired: Wired, loss: str, referred: int | None
) -> None:
    session = wired.session(f"loss={loss}")

    reference = CHECKPOINT.model_copy(update={"weights_digest": f"w-{referred}", "step": referred or 0})
    other = CHECKPOINT.model_copy(update={"weights_digest": "w-99"})
    wired.replace(update_policy, "checkpoints_before", {"other": other, "team": reference})
    batch, work = session.store.put_bytes(b"the batch", kind="TrainBatch"), wired.work
    told: list[UpdateJob] = []

    def update(*, job: UpdateJob) -> UpdateResult:
        told.append(job)
        report_share(0.5)
        assert job.batch_file.read_bytes() == b"the batch"
        assert not job.output_folder.exists()
        return UpdateResult(manifest=MANIFEST, metrics={"loss": 0.375})

    trainer = wired.calls.object(DeepSpeedTrainer, "trainer", update=update)
    session.trainers = wired.calls.object(Trainers, "trainers", of=trainer)
    heard: list[Progress] = []
    with subscribe(heard.append):
        found = update_policy.update_policy.fn(session, 5, "worker", CHECKPOINT, batch)
    assert Progress(stage="update_policy", step=5, done=0.5, total=1, facts={"policy": "worker"}) in heard
    assert told == [
        UpdateJob(
            policy="team",
            step=5,
            seed=17,
            total_steps=19,
            checkpoint_folder=Path("copies/w-32"),
            weights_digest="w-32",
            optimizer_digest="o-32",
            base_digest="b-31",
            reference_folder=None if referred is None else Path(f"copies/w-{referred}"),
            reference_step=referred or 0,
            batch_file=work / "batch",
            output_folder=work / "checkpoint",
            temperature=0.7,
            training=training_of(session.config, "team"),
            loss=session.config.loss,
        )
    ]
    assert told[0].training.learning_rate == 0.004
    stored = CHECKPOINT.model_copy(update={"weights_digest": "w-33"})
    assert found == PolicyUpdate(
        checkpoint=stored, metrics={"loss": 0.375}, needed_steps=(referred,) if referred else ()
    )
    assert wired.calls == [
        *(
            []
            if referred is None
            else [call("checkpoints_before", store=session.store, run=session.run, step=referred)]
        ),
        call("copies.work_folder", step=5),
        call("copies.path", checkpoint=CHECKPOINT),
        call("copies.manifest", checkpoint=CHECKPOINT),
        *([] if referred is None else [call("copies.path", checkpoint=reference)]),
        call("trainers.of", policy="worker"),
        call("trainer.update", job=told[0]),
        call("copies.store", folder=work / "checkpoint", base=FOLDERS["base"]),
    ]
    assert not work.exists()


@pytest.mark.parametrize("is_gone", [False, True])
def test_an_update_that_fails_leaves_no_folder_even_if_the_session_was_closed(wired: Wired, is_gone: bool) -> None:
    session = wired.session()
    batch = session.store.put_bytes(b"the batch", kind="TrainBatch")
    update = update_policy.place_update(session, update_policy.order_update(session, 5, CHECKPOINT, batch))
    update.__enter__().output_folder.mkdir()
    if is_gone:
        shutil.rmtree(wired.work)
    assert not update.__exit__(ValueError, ValueError("diverged"), None)
    assert not wired.work.exists()


@pytest.mark.parametrize(("every", "weight"), [(1, 1.0), (2, 0.25)])
def test_a_critic_s_advantages_count_less_where_older_weights_played(wired: Wired, every: int, weight: float) -> None:
    updates = f"{{type: asynchronous, every: {every}, staleness_exponent: {0.5 if every == 1 else 2.0}}}"
    settings = ["algorithm.advantage=gae", "loss.importance_cap=2.0", f"method.weight_updates={updates}"]
    session = SimpleNamespace(
        config=preset_config("population-kuhn", settings),
        kept=KeptPayloads(wired.session().store),
        copies=Session.copies,
    )
    played = PolicyVersion(policy="first", step=4, weights_digest="w")
    batch = TrainBatch(policy="first", step=5, groups=(), num_groups_without_signal=0, version=played)
    session.store = wired.session().store
    checkpoint = CHECKPOINT.model_copy(update={"policy": "first"})
    order = update_policy.order_update(session, 5, checkpoint, session.kept.put(batch))  # type: ignore[arg-type]
    assert order.critic is not None
    assert order.critic.advantage_weight == weight


def test_a_step_s_report_is_queued_once_all_that_it_tells_of_is_written(
    wired: Wired, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = wired.session()
    after: list[Callable[[], object]] = []
    monkeypatch.setattr(type(session.store), "after_writes", lambda _, work: after.append(work))
    wired.replace(publish_checkpoint, "iteration_report", iteration("run", 5))
    batches = StepBatches(batches={}, metrics={"a": 0.25})
    updates = {
        name: PolicyUpdate(checkpoint=CHECKPOINT.model_copy(update={"policy": name}), metrics={}) for name in "ab"
    }
    assert publish_checkpoint.publish_checkpoint.fn(session, 5, batches, updates) == iteration("run", 5)
    reported = {"session": session, "step": 5, "batches": batches, "updates": updates}
    assert wired.calls == [call("iteration_report", **reported)], "nothing is queued before"
    (queue,) = after
    queue()
    checkpoints = {name: update.checkpoint for name, update in updates.items()}
    queued = {"report": iteration("run", 5), "checkpoints": checkpoints}
    assert wired.calls[1:] == [call("publishing.post_iteration", **queued)]
