"""The policies before training: what each model is made of, who is cloned by whom, and how the clone is judged."""

import time
from pathlib import Path
from typing import Any

import pytest

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import ArtifactRef, CheckpointRef
from components.artifacts.write_behind import WriteBehindStore
from components.config import RunConfig, VllmGeneration
from components.identity import seed_for
from components.machine.scratch import scratch_folder
from components.methods import first_checkpoints as made
from components.models import loading
from components.reporting import progress
from components.reporting.progress import Progress
from components.runs.run import Run
from components.schema import Observation, PolicyVersion
from components.session.checkpoint_cache import CheckpointCache
from components.session.engines import Engines
from components.session.session import Session
from components.session.toolbox import Toolbox
from components.training import checkpoint, warm_start
from components.training.base import MODEL_FOLDER
from flows.presets import preset_config
from tests.recorded_calls import RecordedCalls, call

POLICIES = (
    "policies={scout: {base: tiny, tiny: {hidden_size: 16, num_heads: 2}, adapter: {rank: 2, alpha: 4.0}}, planner: {base: "
    "tiny, trained: false}, judge: {trained: false, prompt_format: chat, api: {provider: openai, model: m}}}"
)
AGENTS = "agents={tool_agent: {policy: scout}, plan_agent: {policy: planner}, judge: {policy: judge}}"
SETTINGS = ("seed=17", "generation.num_threads=3", "warm_start.num_check_problems=7", "environment.max_turns=3")


@pytest.fixture
def calls() -> RecordedCalls:
    return RecordedCalls()


@pytest.fixture
def session(tmp_path: Path, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch) -> Session:
    local = ("store.kind=local", f"store.root={tmp_path / 'store'}", "tracking.kind=none")
    opened = Session(Run(run_id="run", config=preset_config("tiny", [*local, *SETTINGS, POLICIES, AGENTS])))
    opened.toolbox = calls.object(Toolbox, "toolbox", tools="the tools")
    monkeypatch.setattr(Session, "copies", calls.object(CheckpointCache, "copies", store=store_checkpoint))
    return opened


def store_checkpoint(folder: Path, base: ArtifactRef | None) -> CheckpointRef:
    ref = ArtifactRef(kind="folder", key="folders/f", sha256="00", num_bytes=1)
    name = folder.parent.name
    return CheckpointRef(policy=name, step=0, folder=ref, weights_digest=f"w-{name}", optimizer_digest="o", base=base)


def test_each_policy_is_stored_as_it_will_be_trained(
    session: Session, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("write_initial_checkpoint", "write_initial_adapter"):
        calls.replace(monkeypatch, checkpoint, name)
    model = tmp_path / "scout" / MODEL_FOLDER
    model.mkdir(parents=True)
    (model / "config.json").write_text("{}")
    config = session.config
    found = made.store_policies(session, ("scout",), model, tmp_path)
    assert found["scout"].base == session.store.put_folder(model.parent), "an adapter's base is stored beside it"
    assert calls == [
        call(
            "write_initial_adapter",
            model_folder=model,
            output_folder=tmp_path / "scout" / "checkpoint",
            policy="scout",
            adapter=config.policies["scout"].adapter,
            seed=seed_for(17, "adapter", "scout"),
            training=config.training,
        ),
        call("copies.store", folder=tmp_path / "scout" / "checkpoint", base=found["scout"].base),
    ]
    calls.clear()
    assert made.store_policies(session, ("planner",), model, tmp_path)["planner"].base is None
    output = tmp_path / "planner" / "checkpoint"
    assert calls == [
        call("write_initial_checkpoint", model_folder=model, output_folder=output, policy="planner", training=None),
        call("copies.store", folder=output, base=None),
    ]


def test_random_models_are_cloned_from_the_expert_in_their_own_roles(
    session: Session, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folders = {name: tmp_path / name / MODEL_FOLDER for name in ("scout", "planner")}
    prepare = loading.prepare_model_folder
    calls.replace(monkeypatch, loading, "prepare_model_folder", lambda **asked: prepare(**asked) and asked["seed"] != 1)
    calls.replace(monkeypatch, warm_start, "warm_start")
    calls.replace(monkeypatch, made, "success_of", 0.5)
    made.clone_models(session, folders)
    scenario = session.scenario
    alphabet = scenario.family.alphabet(scenario.options)
    assert [each for each in calls if each[0] == "prepare_model_folder"] == [
        call(
            "prepare_model_folder",
            policy=session.config.policies[name],
            alphabet=alphabet,
            seed=seed_for(17, "model", name),
            into=folders[name],
        )
        for name in ("planner", "scout")
    ]
    (asked,) = [arguments for name, arguments in calls if name == "warm_start"]
    students, teacher = asked["students"], asked["teacher"]
    assert {name: (each.folder, each.roles) for name, each in students.items()} == {
        "planner": (folders["planner"], ("plan_agent",)),
        "scout": (folders["scout"], ("tool_agent",)),
    }
    seen = Observation(instructions="not shown", state=alphabet[:3])
    assert students["scout"].encode(seen) == tuple(students["scout"].tokenizer.encode(alphabet[:3]))
    expected = (scenario.family, scenario.turn_order, 3, scenario.options, session.config.warm_start, 17, "the tools")
    told = (teacher.family, teacher.turn_order, teacher.max_turns, teacher.options, teacher.config, teacher.seed)
    assert (*told, teacher.tools) == expected
    assert asked["num_threads"] == 3
    versions = {"scout": PolicyVersion(policy="scout", step=0, weights_digest="w")}
    assert asked["success_of"](versions) == 0.5
    assert calls[-1] == call("success_of", session=session, folders=folders, versions=versions)
    heard: list[Progress] = []
    with progress.subscribe(heard.append):
        asked["progress"](3, 9, 0.25, None)
        asked["progress"](4, 9, 0.125, 0.5)
    assert [(each.stage, each.done, each.total, each.facts) for each in heard] == [
        ("warm_start", 3, 9, {"loss": 0.25}),
        ("warm_start", 4, 9, {"loss": 0.125, "success": 0.5, "enough": 0.0}),
    ]


def test_pretrained_models_are_not_cloned(
    session: Session, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls.replace(monkeypatch, loading, "prepare_model_folder", False)
    calls.replace(monkeypatch, warm_start, "warm_start")
    made.clone_models(session, {name: tmp_path / name for name in ("scout", "planner")})
    assert [name for name, _ in calls] == ["prepare_model_folder"] * 2


@pytest.mark.parametrize("sampler", ["transformers", "vllm"])
def test_the_team_is_judged_at_temperature_1_on_problems_beyond_training(
    sampler: str, session: Session, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """In this process, whatever samples in training."""

    class Engine:
        def load(self, folder: Path, version: PolicyVersion, adapter: Path | None = None) -> None: ...

    engine = calls.object(Engine, "engine")
    if sampler == "vllm":
        config = session.config.model_copy(update={"generation": VllmGeneration(num_threads=3)})
        session.run = session.run.model_copy(update={"config": config})
    here = []
    session.engines = calls.object(Engines, "engines", of=lambda policy: {"judge": "an API"}[policy])

    def open_engines(config: RunConfig) -> Any:
        here.append((config.generation.engine, config.generation.num_threads))
        return calls.object(Engines, "engines", of=lambda policy: engine, close=lambda: None)

    monkeypatch.setattr(made, "Engines", open_engines)
    calls.replace(monkeypatch, made, "Router", "the router")
    calls.replace(monkeypatch, made, "success_rate", 0.25)
    versions = {
        name: PolicyVersion(policy="a model", step=0, weights_digest=f"w-{name}") for name in ("scout", "planner")
    }
    folders = {name: tmp_path / name for name in versions}
    assert made.success_of(session, folders, versions) == 0.25
    loaded = [arguments for name, arguments in calls if name == "engine.load"]
    own = {name: PolicyVersion(policy=name, step=0, weights_digest=f"w-{name}") for name in versions}
    assert loaded == [{"folder": folders[name], "version": own[name]} for name in ("planner", "scout")]
    assert here == [("transformers", 3)]
    (given,) = [arguments for name, arguments in calls if name == "Router"]
    routed = given["versions"]
    assert given["generators"] == {"scout": engine, "planner": engine, "judge": "an API"}
    assert {name: routed[name] for name in own} == own
    assert routed.keys() == {"scout", "planner", "judge"}
    (asked,) = [arguments for name, arguments in calls if name == "success_rate"]
    plan, setting = asked["plan"], asked["setting"]
    assert (plan.split, plan.sampling, len(plan.problems), plan.seed) == ("train_check", "sample", 7, 17)
    assert (setting.router, setting.tools, setting.rubric) == ("the router", "the tools", session.scenario.rubric)


def test_every_model_is_cloned_and_every_policy_stored(
    session: Session, calls: RecordedCalls, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls.replace(monkeypatch, made, "clone_models")
    refs: Any = {"scout": {"scout": "a"}, "planner": {"planner": "b"}}
    calls.replace(monkeypatch, made, "store_policies", lambda **asked: refs[asked["policies"][0]])
    assert made.initial_policies(session) == {"scout": "a", "planner": "b"}
    (_, cloned), *storing = calls
    folders = cloned["folders"]
    assert [arguments["model_folder"] for _, arguments in storing] == [folders["planner"], folders["scout"]]
    assert {arguments["work"] for _, arguments in storing} == {folders["scout"].parent.parent}
    work = folders["scout"].parent.parent
    assert work.parent == scratch_folder(), "where a run that is killed is tidied up"
    assert not work.exists(), "the work folder is removed"


def test_a_base_that_is_written_slowly_is_whole(
    session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A store writes behind: the folder of the models may not go before."""
    upload = LocalArtifactStore._upload

    def slowly(*arguments: Any) -> Any:
        time.sleep(0.2)
        return upload(*arguments)

    def clone(_: Session, folders: dict[str, Path]) -> None:
        for folder in folders.values():
            folder.mkdir(parents=True)
            (folder / "config.json").write_text("{}")

    session._store = WriteBehindStore(session.store)
    monkeypatch.setattr(LocalArtifactStore, "_upload", slowly)
    monkeypatch.setattr(made, "clone_models", clone)
    for name in ("write_initial_checkpoint", "write_initial_adapter"):
        monkeypatch.setattr(checkpoint, name, lambda *_, **__: None)
    base = made.initial_policies(session)["scout"].base
    assert base is not None
    session.store.flush()
    assert [file.name for file in session.store.durable.get_folder(base, tmp_path / "read").rglob("*.json")] == [
        "config.json"
    ]
