"""Whoever is named plays: runs, exported folders, adapters, teams of several; and what was played is not played again."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from components.artifacts.local import LocalArtifactStore
from components.artifacts.refs import CheckpointRef
from components.errors import ConfigurationError, StoreRefused
from components.generation.api.chat import KEY_VARIABLES
from components.methods import base as evaluation
from components.models.adapters import (
    ADAPTER_FOLDER,
    adapter_tensors,
    add_adapter,
    compute_adapted_digest,
    write_adapter,
)
from components.models.digests import model_digest, tensors_digest
from components.models.loading import prepare_model_folder
from components.runs.initial_checkpoints import record_initial_checkpoints
from components.runs.lineages import freeze_config
from components.runs.run import Run
from components.runs.steps import finish_step
from components.schema import EvalReport
from components.session.engines import Engines
from components.session.session import Session
from components.training.base import MODEL_FOLDER, CheckpointManifest
from components.training.checkpoint import (
    NO_OPTIMIZER,
    compute_probe,
    load_model,
    write_initial_checkpoint,
    write_manifest,
)
from flows.presets import preset_config
from flows.steps import TEAM_PIPELINE as PIPELINE
from tasks.warm_start import warm_start
from tests.components.generation.api.wire_server import KEY, MODEL, wire_server
from troupe.cli import app
from troupe.teams.evaluation import evaluate

BOARDS = ("environment.options.max_moves=5", "environment.max_turns=3")
ADAPTERS = (
    "policies={team: {base: tiny, tiny: {hidden_size: 32, num_layers: 2, num_heads: 2, intermediate_size: 64}, "
    "adapter: {rank: 4, alpha: 8.0}}}"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> LocalArtifactStore:
    """Holds the runs "cloned", whose one update left random weights, "adapted", whose one update left a random
    adapter on a cloned base, and "rounded", which has the random weights and computes otherwise."""
    root = tmp_path_factory.mktemp("subjects")
    (root / "store").mkdir()
    local = ["store.kind=local", f"store.root={root / 'store'}", "tracking.kind=none", "num_steps=1", *BOARDS]
    with Session(Run(run_id="cloned", config=preset_config("tiny", local))) as session:
        warm_start.fn(session)
        freeze_config(session.store, "cloned", session.config, PIPELINE)
        record_initial_checkpoints(session.store, session.run, PIPELINE)
        alphabet = session.scenario.family.alphabet(session.scenario.options)
        prepare_model_folder(session.config.policies["team"], alphabet=alphabet, seed=7, into=root / "model")
        write_initial_checkpoint(root / "model", root / "checkpoint", "team")
        checkpoint = session.copies.store(root / "checkpoint", base=None)
        updated = {"team": checkpoint.model_copy(update={"step": 1})}
        finish_step(session.store, session.run, 0, updated)
        rounded = Run(run_id="rounded", config=preset_config("tiny", [*local, "generation.num_threads=2"]))
        freeze_config(session.store, "rounded", rounded.config, PIPELINE)
        finish_step(session.store, rounded, 0, updated)
    with Session(Run(run_id="adapted", config=preset_config("tiny", [*local, ADAPTERS]))) as session:
        before = warm_start.fn(session)["team"]
        freeze_config(session.store, "adapted", session.config, PIPELINE)
        record_initial_checkpoints(session.store, session.run, PIPELINE)
        finish_step(session.store, session.run, 0, {"team": with_random_adapter(session, before, root / "adapter")})
    return LocalArtifactStore(root / "store")


def with_random_adapter(session: Session, before: CheckpointRef, folder: Path) -> CheckpointRef:
    """The base of a checkpoint with another adapter, which changes what it answers."""
    shape = session.config.policies["team"].adapter
    assert shape is not None
    model = load_model(session.copies.path(before) / MODEL_FOLDER)
    base = model_digest(model)
    add_adapter(model, "team", shape, seed=3)
    tensors = adapter_tensors(model, "team")
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        for tensor in tensors.values():
            tensor.normal_(std=0.05)
    write_adapter(tensors, shape, folder / ADAPTER_FOLDER)
    digest = compute_adapted_digest(base, tensors_digest(tensors))
    named = {"policy": "team", "step": 1, "weights_digest": digest, "optimizer_digest": NO_OPTIMIZER}
    write_manifest(folder, CheckpointManifest(**named, probe=compute_probe(model)))
    return session.copies.store(folder, base=before.base)


def run_evaluate(store: LocalArtifactStore, subject: str, suite: str | None = None, **wanted: Any) -> EvalReport:
    values = {"num_problems": 20, "sampling": "sample", "store": store.uri} | wanted
    return evaluate(subject, suite, **values)


def outcome(report: EvalReport) -> tuple[Any, ...]:
    """What became of the problems, and of the answers: how many there were, how long, how good."""
    counts = {name: value for name, value in report.metrics.items() if not name.endswith("/seconds")}
    return report.num_solved_P, report.mean_reward, counts


def blocks(store: LocalArtifactStore) -> int:
    """The blocks of problems that were played and kept."""
    keys = store.list("runs/_shared/steps/000000/")
    return sum("/play_suite-v" in key and key.endswith("/manifest.json") for key in keys)


def test_what_was_played_is_read_whoever_asks(store: LocalArtifactStore) -> None:
    first = run_evaluate(store, "cloned@0", seed=11)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engines, "of", lambda *_: pytest.fail("an engine was asked for"))
        assert run_evaluate(store, "cloned@0", seed=11) == first
        assert run_evaluate(store, "cloned", step=0, seed=11) == first
        in_one_team = run_evaluate(store, "tool_agent=cloned@0,plan_agent=cloned@0", seed=11)
        assert in_one_team.num_solved_P == first.num_solved_P
    before = blocks(store)
    longer = run_evaluate(store, "cloned@0", seed=11, num_problems=30)
    assert blocks(store) == before + 1, "the first 20 problems are one block, and were played"
    assert longer.num_solved_P[:20] == first.num_solved_P
    assert longer.suite_digest != first.suite_digest
    assert run_evaluate(store, "cloned@0", seed=12).suite_digest != first.suite_digest
    assert blocks(store) == before + 2


def test_a_role_is_played_by_the_subject_that_is_named_for_it(store: LocalArtifactStore) -> None:
    own = {step: run_evaluate(store, f"cloned@{step}", seed=3) for step in (0, 1)}
    mixed = run_evaluate(store, "tool_agent=cloned@1,plan_agent=cloned@0", seed=3)
    assert mixed.agent == "tool_agent=cloned@1,plan_agent=cloned@0"
    rates = [report.metrics["eval/sample/tool_agent/malformed_rate"] for report in (own[0], mixed, own[1])]
    assert rates[0] < rates[1] == pytest.approx(rates[2], abs=0.2)
    with pytest.raises(ConfigurationError, match=r"cloned@1 has no role 'judge'; its roles are plan_agent, tool_agent"):
        run_evaluate(store, "judge=cloned@1")
    with pytest.raises(ConfigurationError, match=r"its roles \['tool_agent'\] are played by nobody"):
        run_evaluate(store, "plan_agent=cloned@1")
    with pytest.raises(ConfigurationError, match=r"step 7 of run cloned: it has finished 1 updates"):
        run_evaluate(store, "tool_agent=cloned@7,plan_agent=cloned@1")
    with pytest.raises(ConfigurationError, match=r"runs of tool_agent and plan_agent differ in generation, and a team"):
        run_evaluate(store, "tool_agent=cloned@1,plan_agent=rounded@1")


@pytest.mark.parametrize(("run", "options"), [("cloned@0", []), ("adapted@1", []), ("adapted@1", ["--merged"])])
def test_an_exported_folder_plays_as_its_run(
    store: LocalArtifactStore, run: str, options: list[str], tmp_path: Path
) -> None:
    told = CliRunner().invoke(app, ["export", run, str(tmp_path / "out"), "--store", store.uri, *options])
    assert told.exit_code == 0, told.output
    folder = str(tmp_path / "out" / "team")
    roundings = [(), ("generation.dtype=bfloat16",)] if not options else [()]  # merged weights round otherwise
    for how in roundings:
        wanted = {"overrides": (*BOARDS, *how), "seed": 5, "sampling": "greedy"}
        ours, before = run_evaluate(store, run, "tiny", **wanted), blocks(store)
        theirs = run_evaluate(store, folder, "tiny", **wanted)
        assert outcome(theirs) == outcome(ours)
        assert theirs.suite_digest == ours.suite_digest
        assert ours.num_successes > 0
        assert (blocks(store) == before) == (not options), "equal weights, asked in the same way, are one player"
        if run == "adapted@1":
            assert outcome(run_evaluate(store, "adapted@0", "tiny", **wanted)) != outcome(ours)
    assert (
        run_evaluate(store, f"tool_agent={folder},plan_agent={run}", "tiny", **wanted).num_solved_P == ours.num_solved_P
    )
    with pytest.raises(
        ConfigurationError, match=r"out': holds the models team; name one, as .*out/team, or one for each"
    ):
        run_evaluate(store, str(tmp_path / "out"), "tiny")


def test_a_model_is_asked_as_its_suite_asks_models_of_its_kind(store: LocalArtifactStore, tmp_path: Path) -> None:
    CliRunner().invoke(app, ["export", "cloned@0", str(tmp_path / "out"), "--store", store.uri], catch_exceptions=False)
    asked = ("agents.plan_agent.max_new_tokens=3", "agents.tool_agent.temperature=0.05")
    values = preset_config("tiny", [*BOARDS, *asked]).model_dump(mode="json")
    (tmp_path / "short.yaml").write_text(json.dumps(values))
    ours = run_evaluate(store, "cloned@0", str(tmp_path / "short.yaml"), seed=6, overrides=asked)
    free, before = run_evaluate(store, "cloned@0", str(tmp_path / "short.yaml"), seed=6), blocks(store)
    for subject in (f"{tmp_path}/out/team", f"tool_agent={tmp_path}/out/team,plan_agent={tmp_path}/out/team"):
        theirs = run_evaluate(store, subject, str(tmp_path / "short.yaml"), seed=6)
        assert (theirs.num_solved_P, theirs.temperatures) == (ours.num_solved_P, {"tool_agent": 0.05})
    assert (blocks(store), free.temperatures) == (before, None), "a run is asked as it learned"


def test_a_model_behind_an_api_plays_every_role_or_one(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY_VARIABLES["openai"], KEY)
    with wire_server() as wire:
        wire.answer = lambda state, index: "R"
        for subject, policy in (
            (f"openai:{MODEL}", "team"),
            (f"tool_agent=openai:{MODEL},plan_agent=cloned@0", "tool_agent"),
        ):
            wanted = {
                "overrides": (*BOARDS, f"policies.{policy}.api.base_url={wire.base_url('openai')}"),
                "num_problems": 4,
            }
            report, num_requests = run_evaluate(store, subject, "tiny", **wanted), len(wire.exchanges)
            assert (report.agent, report.n) == (subject, 4)
            assert report.metrics[f"eval/sample/api/{policy}/num_requests"] == num_requests > 0
            assert run_evaluate(store, subject, "tiny", **wanted).num_solved_P == report.num_solved_P
            assert len(wire.exchanges) == num_requests, "an answer is paid once"
            wire.exchanges.clear()
    monkeypatch.delenv(KEY_VARIABLES["openai"])
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        run_evaluate(store, f"openai:{MODEL}", "tiny")


def test_a_damaged_adapter_is_named(store: LocalArtifactStore, tmp_path: Path) -> None:
    CliRunner().invoke(
        app, ["export", "adapted@0", str(tmp_path / "out"), "--store", store.uri], catch_exceptions=False
    )
    folder = tmp_path / "out" / "team"
    config = folder / "adapter_config.json"
    values = json.loads(config.read_text())
    (folder / "adapter_model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ConfigurationError, match=r"the adapter in .* cannot be read: .*name a LoRA adapter's folder"):
        run_evaluate(store, str(folder), "tiny")
    config.write_text(json.dumps({**values, "base_model_name_or_path": None}))
    with pytest.raises(ConfigurationError, match=r"base_model_name_or_path is None; set it to the model"):
        run_evaluate(store, str(folder), "tiny")
    for name, value in (("use_rslora", True), ("target_modules", "all-linear"), ("init_lora_weights", "pissa")):
        config.write_text(json.dumps({**values, name: value}))
        with pytest.raises(
            ConfigurationError, match=rf"{name} is {value!r}, and only plain LoRA .*name the merged folder"
        ):
            run_evaluate(store, str(folder), "tiny")
    config.write_text("{")
    with pytest.raises(ConfigurationError, match="no adapter's configuration"):
        run_evaluate(store, str(folder), "tiny")


def test_what_is_set_changes_who_plays_and_what(store: LocalArtifactStore) -> None:
    plain, before = run_evaluate(store, "cloned@0", seed=2), blocks(store)
    cold = run_evaluate(store, "cloned@0", seed=2, overrides=("agents.tool_agent.temperature=0.05",))
    assert (plain.temperatures, cold.temperatures) == (None, {"tool_agent": 0.05})
    assert blocks(store) == before + 1, "another question is other play"
    assert cold.suite_digest == plain.suite_digest
    short = run_evaluate(store, "cloned@0", seed=2, overrides=("environment.max_turns=1",))
    assert short.suite_digest != plain.suite_digest
    with pytest.raises(ConfigurationError, match=r"training.learning_rate=1.*changes no evaluation"):
        run_evaluate(store, "cloned@0", overrides=("training.learning_rate=1",))
    with pytest.raises(ConfigurationError, match=r"resources.runner=ray.* plays in its own process"):
        run_evaluate(store, "cloned@0", overrides=("resources.runner=ray",))
    with pytest.raises(ConfigurationError, match=r"generation\.device"):
        run_evaluate(store, "cloned@0", overrides=("generation.device=abacus",))


def test_an_evaluation_that_cannot_be_kept_is_given_all_the_same(
    store: LocalArtifactStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = run_evaluate(store, "cloned@0", seed=21)
    create = LocalArtifactStore.create

    def refuse(self: LocalArtifactStore, key: str, content: bytes) -> bool:
        if self.uri == store.uri:
            raise StoreRefused("the disk is full")
        return create(self, key, content)

    monkeypatch.setattr(LocalArtifactStore, "create", refuse)
    with caplog.at_level(logging.WARNING):
        found = run_evaluate(store, "cloned@0", seed=22)
    assert (found.n, found.suite) == (wanted.n, wanted.suite)
    assert "the evaluation is not kept, and will be played again: the disk is full" in caplog.text
    monkeypatch.setattr(evaluation, "play_block", lambda *_, **__: pytest.fail("what the store holds is played again"))
    assert run_evaluate(store, "cloned@0", seed=21) == wanted
