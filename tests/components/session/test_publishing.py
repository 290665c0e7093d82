"""What a session hands to its outbox and to the thread that drains it."""

import hashlib
import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.machine import outages
from components.machine.process_ids import this_process
from components.runs.lineages import Lineage
from components.runs.provenance import provenance
from components.runs.run import Run
from components.session import publishing
from components.session.publishing import Publishing, run_params, run_tags, training_problems
from components.session.tracing import Tracing
from components.tracking.base import PROCESS_TAG, STARTED_TAG, VIEW_TAG, PolicyFiles, TeamCheckpoint
from components.tracking.drain import OutboxDrain
from components.tracking.outbox import DrainReport, Outbox
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tests.components.tracking.memory import InMemoryTracker
from tests.components.tracking.reports import evaluation, iteration
from tests.recorded_calls import Call, RecordedCalls, call, fails

CONFIG = preset_config("tiny", ["seed=17"])
TRACKER = InMemoryTracker()


def restart(lineage: int, from_step: int, stage: str) -> Lineage:
    given: dict[str, Any] = {"config": CONFIG, "started_at": datetime(2026, 1, lineage, tzinfo=UTC)}
    return Lineage(lineage=lineage, from_step=from_step, from_stage=stage, repeats=(stage,), **given)


RUN = Run(
    run_id="r",
    config=CONFIG,
    lineages=(restart(2, 4, "publish_checkpoint"), restart(3, 6, "evaluate_policy"), restart(7, 8, "update_policy")),
)
"""At step 4 the report is of restart 2 and the evaluation of none; at step 6 they are of 2 and 3."""


@pytest.fixture
def calls() -> RecordedCalls:
    return RecordedCalls()


@pytest.fixture
def interruptions() -> Iterator[None]:
    """Forgets an interruption."""
    yield
    with outages.interruptible():
        pass


def checkpoint(policy: str, step: int) -> CheckpointRef:
    folder = ArtifactRef(kind="folder", key=f"folders/{policy}-{step}", sha256="00ff", num_bytes=1)
    return CheckpointRef(
        policy=f"not {policy}", step=step, folder=folder, weights_digest=f"w-{policy}-{step}", optimizer_digest="o"
    )


FIRST = {"a": checkpoint("a", 0), "b": checkpoint("b", 0)}


@pytest.fixture
def published(calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch) -> Publishing:
    """Publishing into stand-ins, in a store that says what it is asked for."""
    left = DrainReport(num_published=0, num_pending=23, error="the server is away")
    outbox = calls.object(Outbox, "outbox")
    drain = calls.object(OutboxDrain, "drain", close=left)
    store = calls.object(LocalArtifactStore, "store", folder_uri=lambda ref: f"at {ref.key}")
    calls.replace(monkeypatch, publishing, "Outbox", outbox)
    calls.replace(monkeypatch, publishing, "OutboxDrain", drain)
    monkeypatch.setattr(publishing, "peak_memory_mib", lambda: 300.0)
    monkeypatch.setattr(publishing, "view_command", lambda store, run_id: f"view {run_id}")
    tracing = calls.object(Tracing, "tracing", traces=["a trace"])
    made = Publishing(RUN, PIPELINE, store, TRACKER, first=FIRST, tracing=tracing, changed={"seed": "17"}, started_ms=5)
    tags = {**run_tags(CONFIG, PIPELINE), "changed.seed": "17", PROCESS_TAG: str(this_process()), VIEW_TAG: "view r"}
    tags[STARTED_TAG] = "5"
    about = {"params": run_params(CONFIG), "tags": tags, "problems": [training_problems(CONFIG)], "model": "tiny"}
    assert calls == [
        ("Outbox", {"store": store, "run_id": "r", **about}),
        *list_queued(0, a=0, b=0),
        call("OutboxDrain", outbox=outbox, tracker=TRACKER),
    ]
    assert made.outbox is outbox
    calls.clear()
    return made


def list_queued(step: int, **made_at: int) -> list[Call]:
    """The team after `step` updates, its policies last changed by these."""
    policies = {
        policy: PolicyFiles(weights_digest=f"w-{policy}-{at}", folder_uri=f"at folders/{policy}-{at}")
        for policy, at in made_at.items()
    }
    return [
        *(call("store.folder_uri", ref=checkpoint(policy, at).folder) for policy, at in made_at.items()),
        call("outbox.post_checkpoint", checkpoint=TeamCheckpoint(model="tiny", step=step, policies=policies)),
    ]


@pytest.mark.parametrize(("step", "lineage"), [(3, 0), (4, 2), (6, 2), (9, 7)])
def test_a_step_is_queued_with_its_restart_and_its_checkpoints_before_the_thread_is_woken(
    published: Publishing, calls: RecordedCalls, step: int, lineage: int
) -> None:
    published.post_iteration(iteration("r", step), {"b": checkpoint("b", step + 1)})
    report = iteration("r", step)
    told = call(
        "outbox.post_iteration",
        report=replace(report, metrics={**report.metrics, "memory/peak_mib": 300.0}),
        lineage=lineage,
    )
    assert calls == [told, *list_queued(step + 1, a=0, b=step + 1), call("drain.poke")], "policy a is not trained"


def test_the_speed_of_rollouts_is_over_their_seconds_alone(published: Publishing, calls: RecordedCalls) -> None:
    timings = {"time/collect_rollouts_seconds": 2.0, "time/update_policy_seconds": 1.0}
    report = replace(iteration("r", 0), metrics={"rollout/num_generated_tokens": 800.0}, timings=timings)
    published.post_iteration(report, {})
    measured = {"memory/peak_mib": 300.0, "rollout/tokens_per_second": 400.0}
    posted = replace(report, metrics={**report.metrics, **measured})
    assert calls[0] == call("outbox.post_iteration", report=posted, lineage=0)


def test_a_policy_that_could_learn_and_did_not_is_not_queued_as_it_was_before_the_run(calls: RecordedCalls) -> None:
    trained = CONFIG.policies["team"]
    policies = {"team": trained, "b": trained.model_copy(update={"trained": False}), "c": trained}
    run = RUN.model_copy(update={"config": CONFIG.model_copy(update={"policies": policies})})
    store = calls.object(LocalArtifactStore, "store", folder_uri=lambda ref: f"at {ref.key}")
    first = {policy: checkpoint(policy, 0) for policy in policies}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(publishing, "view_command", lambda store, run_id: f"view {run_id}")
        for name in ("Outbox", "OutboxDrain"):
            calls.replace(patch, publishing, name, calls.object(getattr(publishing, name), name))
        made = Publishing(run, PIPELINE, store, TRACKER, first=first, tracing=None, changed={}, started_ms=5)
        made.post_iteration(iteration("r", 3), {"team": checkpoint("team", 4)})
    teams = [arguments["checkpoint"] for name, arguments in calls if name == "Outbox.post_checkpoint"]
    assert [[*team.policies] for team in teams] == [["team", "b", "c"], ["team", "b"]]


@pytest.mark.parametrize(("step", "lineage"), [(3, 0), (8, 3), (9, 7)])
def test_episodes_are_queued_with_their_restart(
    published: Publishing, calls: RecordedCalls, step: int, lineage: int
) -> None:
    published.post_traces(step, [], [])
    assert calls == [
        call("tracing.traces", step=step, shards=[], scores=[]),
        call("outbox.post_traces", step=step, traces=["a trace"], lineage=lineage),
        call("drain.poke"),
    ]


def test_episodes_that_cannot_be_shown_end_no_training(
    published: Publishing, calls: RecordedCalls, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(published, "_tracing", calls.object(Tracing, "tracing", traces=fails(KeyError("grid"))))
    published.post_traces(3, [], [])
    monkeypatch.setattr(published, "_tracing", None)
    published.post_traces(4, [], [])
    assert caplog.messages == ["no traces of step 3: KeyError: 'grid'"]
    assert calls == [call("tracing.traces", step=3, shards=[], scores=[])]


def test_other_problems_have_another_digest() -> None:
    assert training_problems(CONFIG) == training_problems(CONFIG.model_copy(update={"seed": 18}))
    other = CONFIG.model_copy(update={"environment": CONFIG.environment.model_copy(update={"options": {"x": 1}})})
    assert training_problems(CONFIG).digest != training_problems(other).digest
    assert training_problems(CONFIG).name == "plan_path/train"


@pytest.mark.parametrize(("step", "lineage"), [(4, 0), (6, 3), (9, 7)])
def test_an_evaluation_is_queued_with_its_restart_before_the_thread_is_woken(
    published: Publishing, calls: RecordedCalls, step: int, lineage: int
) -> None:
    published.post_evaluation(evaluation(step))
    told = call("outbox.post_evaluation", report=evaluation(step), lineage=lineage)
    assert calls == [told, call("drain.poke")]


@pytest.mark.usefixtures("interruptions")
@pytest.mark.parametrize("succeeded", [True, False])
@pytest.mark.parametrize(("is_interrupted", "seconds"), [(False, 30.0), (True, 3.0)])
def test_the_end_waits_less_after_an_interruption_and_says_what_is_left(
    published: Publishing,
    calls: RecordedCalls,
    caplog: pytest.LogCaptureFixture,
    succeeded: bool,
    is_interrupted: bool,
    seconds: float,
) -> None:
    if is_interrupted:
        outages.interrupt()
    with caplog.at_level(logging.WARNING, logger=publishing.__name__):
        published.close(succeeded=succeeded)
    assert calls == [call("drain.close", timeout_seconds=seconds, succeeded=succeeded, extends=not is_interrupted)]
    assert caplog.messages == ["23 reports wait for the tracking server: the server is away"]


def test_an_end_with_nothing_left_says_nothing(
    published: Publishing, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: Any = SimpleNamespace(close=lambda *_, **__: DrainReport(num_published=5, num_pending=0))
    monkeypatch.setattr(published, "_drain", done)
    published.close(succeeded=True)
    assert caplog.messages == []


def test_a_run_is_found_by_its_preset_and_its_versions(calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch) -> None:
    found = provenance(PIPELINE).model_copy(update={"troupe": "1.2.3", "stage_versions": {"own_stage": 5}})
    calls.replace(monkeypatch, publishing, "provenance", found)
    tags = run_tags(CONFIG.model_copy(update={"preset": "mine"}), PIPELINE)
    assert calls == [call("provenance", pipeline=PIPELINE)]
    assert (tags["troupe.preset"], tags["troupe.specialisation"]) == ("mine", "L1")
    assert (tags["troupe.version"], tags["troupe.stage_versions"]) == ("1.2.3", "own_stage-v5")


def test_parameters_are_leaves_without_the_places_of_the_run() -> None:
    params = run_params(CONFIG)
    assert (params["seed"], params["num_steps"]) == ("17", str(CONFIG.num_steps))
    assert params["rollout.group_size"] == str(CONFIG.rollout.group_size)
    assert params["policies.team.trained"] == "True"
    assert (params["rewards.functions"], params["rewards.weights"]) == ("[]", "{}")
    assert not [name for name in params if name.startswith(("store", "tracking"))]


def test_a_long_parameter_is_its_beginning_and_its_digest() -> None:
    longest, longer = "é" * 500, "é" * 499 + "ab"
    told = {each: run_params(CONFIG.model_copy(update={"preset": each}))["preset"] for each in (longest, longer)}
    digest = hashlib.sha256(longer.encode()).hexdigest()
    assert told == {longest: longest, longer: f"{'é' * 250}… (501 characters, sha256 {digest})"}
